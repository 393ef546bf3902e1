"""`python -m keet`"""

from keet.cli import run

run()
