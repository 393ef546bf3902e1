"""The code of a launch with what each line costs: `listing` is made of the parts in the others."""
