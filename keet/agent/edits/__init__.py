"""A model's edits: find their lines, make a diff that applies, compile it, write the patch file."""
