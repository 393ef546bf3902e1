"""As score_candidates.py runs it."""

import sys

from .command import main

sys.exit(main())
