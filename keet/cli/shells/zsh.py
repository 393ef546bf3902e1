"""Completion for zsh: the words of the bash script, completed with zsh's own functions."""

from __future__ import annotations

from keet.cli import COMMANDS, QUIET
from keet.cli.shells.completions import (
    REPORT_SUFFIXES,
    CompletedCommand,
    CompletedOption,
    CompletedValue,
    commands,
)
from keet.version import __version__

_SCRIPT = r"""#compdef keet
# zsh completion for keet @VERSION@. Put it into a folder of your fpath, as _keet:
#   keet completion zsh > ~/.zfunc/_keet
# or load it in ~/.zshrc, after compinit: source <(keet completion zsh)

# Options, values and operands of a command. A value is report, file, folder, text or words (a,b).
_keet_command() {
    flags=() values=() operands=() open='' program=''
    case "$1" in
@COMMANDS@
        *) return 1 ;;
    esac
}

_keet_value() {
    case "$1" in
        report) _files -g '*.(@SUFFIXES@)(-.)' || _files ;;
        file) _files ;;
        folder) _files -/ ;;
        text) _message 'a value' ;;
        *) compadd -- ${(s:,:)1} ;;
    esac
}

_keet() {
    local command='' count=0 after='' pending='' word entry open program
    local -a flags values operands names
    for word in "${(@)words[2,CURRENT-1]}"; do
        if [[ -z $command ]]; then
            [[ $word == (@QUIET@) ]] && continue
            command=$word
            _keet_command $command || return 1
        elif [[ -n $after ]]; then
            (( count += 1 ))
        elif [[ -n $pending ]]; then
            pending=''
        elif [[ $word == -- ]]; then
            after=yes
        elif [[ $word == --*=* ]]; then
            :
        elif [[ $word == -?* ]]; then
            for entry in $values; do
                [[ ${entry%%=*} == $word ]] && pending=${entry#*=}
            done
        elif (( count == 0 )) && _keet_command "$command $word"; then
            command="$command $word"
        else
            _keet_command $command
            (( count += 1 ))
        fi
    done
    local cur=$words[CURRENT]
    if [[ -z $command ]]; then
        names=(
@NAMES@
        )
        _describe -t commands 'command' names
        [[ $cur == -* ]] && compadd -- --help --version @QUIET_WORDS@
        return 0
    fi
    if [[ -n $pending ]]; then
        _keet_value $pending
    elif [[ -n $program && -n $after ]]; then
        if (( count )); then _files; else _command_names -e; _files; fi
    elif [[ -z $after && $cur == --*=* ]]; then
        for entry in $values; do
            if [[ ${entry%%=*} == ${cur%%=*} ]]; then
                compset -P '*='
                _keet_value ${entry#*=}
            fi
        done
    elif [[ -z $after && $cur == -* ]]; then
        _describe -o -t options 'option' flags
    else
        (( count < $#operands )) || { [[ -n $open ]] || return 1; count=$(( $#operands - 1 )) }
        _keet_value $operands[count+1]
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _keet "$@"
else
    compdef _keet keet
fi
"""


def zsh_script() -> str:
    names = {name: entry.summary for name, entry in COMMANDS.items()}
    names["help"] = "options and examples of a command"
    arms = [_arm(command) for command in commands()]
    arms.append(f"        help) operands=({','.join(COMMANDS)}) ;;")
    return (
        _SCRIPT.replace("@VERSION@", __version__)
        .replace("@COMMANDS@", "\n".join(arms))
        .replace("@SUFFIXES@", "|".join(suffix[1:] for suffix in REPORT_SUFFIXES))
        .replace("@NAMES@", "\n".join(f"            {_row(*each)}" for each in names.items()))
        .replace("@QUIET@", "|".join(QUIET))
        .replace("@QUIET_WORDS@", " ".join(QUIET))
    )


def _arm(command: CompletedCommand) -> str:
    flags = " ".join(_row(flag, each.help) for each in command.options for flag in each.flags)
    values = " ".join(quoted(text) for each in command.options for text in _values(each))
    operands = " ".join(quoted(_kind(each)) for each in command.operands)
    program = " program=yes" if command.takes_program else ""
    is_open = " open=yes" if command.is_open else ""
    name = quoted(command.name)
    lists = f"flags=({flags}) values=({values}) operands=({operands})"
    return f"        {name}) {lists}{is_open}{program} ;;"


def _values(option: CompletedOption) -> list[str]:
    return [f"{flag}={_kind(option.value)}" for flag in option.flags] if option.value else []


def _kind(value: CompletedValue) -> str:
    return ",".join(value.words) if value.kind == "words" else value.kind


def _row(name: str, description: str) -> str:
    """As `_describe` takes it: a colon ends the name."""
    return quoted(f"{name}:{' '.join(description.split())}")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
