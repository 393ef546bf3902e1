"""What keet prints: one folder per format, one module per command.

- `FORMAT/COMMAND.py` prints what COMMAND found in FORMAT: `markdown/diff.py` is
  `keet diff --format markdown`.
- A part that several commands of a format share is named after what it shows (`finding.py`,
  `account.py`, `program.py`). A part of one command has the command's name first
  (`hotspots_line.py`), unless other commands show it too. What a format needs to be written at all
  is `markup.py`; for the terminal it is `console.py`. Documents write JSON themselves.
- Words, selections and rows that several formats print are in `common`, named after what they are
  about.
- A format imports itself and `common`; `common` imports no format. Only `html` may embed charts of
  `svg` and the prompt of `markdown/context`.

`tests/test_layers.py` checks the imports.
"""
