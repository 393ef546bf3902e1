"""Print a completion script for your shell: keet's commands, options, reports and findings.

Completing does not start Python. Print the script again after an update of keet."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\
examples:
  source <(keet completion bash)              now; put the line into ~/.bashrc to keep it
  keet completion zsh > ~/.zfunc/_keet        with fpath+=~/.zfunc before compinit in ~/.zshrc
  keet completion fish > ~/.config/fish/completions/keet.fish
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="your shell")


def run(args: Namespace) -> None:
    if args.shell == "bash":
        from keet.cli.shells.bash import bash_script as script
    elif args.shell == "zsh":
        from keet.cli.shells.zsh import zsh_script as script
    else:
        from keet.cli.shells.fish import fish_script as script
    sys.stdout.write(script())
