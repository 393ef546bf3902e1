"""The Python API behind `import keet`, beside the commands: one module per function.

Uses the functions that make the output of the commands, so that texts and numbers are the same.
Imports `formats`, `pages` and what is below; never the command line.
"""

from __future__ import annotations

from keet.profile import Profile


def _profile_html(profile: Profile) -> str:
    from keet.api.notebook import profile_html

    return profile_html(profile)


Profile.html_view = _profile_html
