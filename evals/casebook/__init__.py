"""The casebook in `keet eval diagnosis` and `keet eval forecast`: one module per task; locked
families only with `--locked`.

Each use of `--locked` is logged in docs/results.md. Nothing that is shown for a case was learnt
from its own family.
"""
