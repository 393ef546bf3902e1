"""The casebook under `keet eval diagnosis` and `keet eval forecast`: cases nobody tuned a rule on.

Locked families are scored only where that is asked for (`--locked`), and each such opening is
logged in docs/results.md. Nothing that is shown for a case was learnt from its own family.
"""
