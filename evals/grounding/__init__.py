"""Are all numbers in keet's texts measured, and are false ones in others' texts caught?"""
