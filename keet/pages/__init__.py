"""What is on the page of each command: documents become lists of blocks (`keet.pages.blocks`).

One module per command. It alone decides what is shown, in which order and how much; `keet.formats`
decides how that looks.
"""
