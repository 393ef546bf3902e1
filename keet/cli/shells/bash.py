"""Completion for bash 3.2 and newer, without the package bash-completion."""

from __future__ import annotations

from collections.abc import Iterable

from keet.cli import COMMANDS, QUIET
from keet.cli.shells.completions import REPORT_SUFFIXES, CompletedCommand, CompletedValue, commands
from keet.version import __version__

_SCRIPT = r"""# bash completion for keet @VERSION@.
# Load it in ~/.bashrc: source <(keet completion bash)

# Options, values and operands of a command. A value is report, file, folder, text or words (a,b).
_keet_command() {
    flags='' values='' operands='' open='' program=''
    case "$1" in
@COMMANDS@
        *) return 1 ;;
    esac
}

_keet_files() {  # files and folders that begin with $1; of files, those with an ending of $2
    local name ending
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do
        if [ -d "$name" ] || [ -z "$2" ]; then
            COMPREPLY+=("$name")
            continue
        fi
        for ending in $2; do
            if [ "${name%"$ending"}" != "$name" ]; then
                COMPREPLY+=("$name")
                break
            fi
        done
    done < <(compgen -f -- "$1")
}

_keet_value() {  # $1: what a value is, $2: what was typed of it
    case "$1" in
        report)
            _keet_files "$2" '@SUFFIXES@'
            [ ${#COMPREPLY[@]} -gt 0 ] || _keet_files "$2" ''
            ;;
        file) _keet_files "$2" '' ;;
        folder)
            compopt -o filenames 2>/dev/null
            local name
            while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -d -- "$2")
            ;;
        text) ;;
        *) COMPREPLY=($(compgen -W "${1//,/ }" -- "$2")) ;;
    esac
}

_keet() {
    local cur="${COMP_WORDS[COMP_CWORD]}" command='' count=0 after='' pending='' i word entry
    local flags values operands open program
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        if [ -z "$command" ]; then
            case "$word" in
                @QUIET@) ;;
                *) command="$word"; _keet_command "$command" || return 0 ;;
            esac
            continue
        fi
        if [ -n "$after" ]; then
            count=$((count + 1))
            continue
        fi
        if [ "$word" = = ]; then  # bash cuts --format=json at the sign
            continue
        fi
        if [ -n "$pending" ]; then
            pending=''
            continue
        fi
        case "$word" in
            --) after=yes ;;
            -?*)
                for entry in $values; do
                    [ "${entry%%=*}" != "$word" ] || pending="${entry#*=}"
                done
                ;;
            *)
                if [ "$count" -eq 0 ] && _keet_command "$command $word"; then
                    command="$command $word"
                else
                    _keet_command "$command"
                    count=$((count + 1))
                fi
                ;;
        esac
    done
    [ "$cur" != = ] || cur=''
    if [ -z "$command" ]; then
        COMPREPLY=($(compgen -W '@NAMES@ help --help --version @QUIET_WORDS@' -- "$cur"))
    elif [ -n "$pending" ]; then
        _keet_value "$pending" "$cur"
    elif [ -n "$program" ] && [ -n "$after" ]; then
        _keet_files "$cur" ''
        [ "$count" -gt 0 ] || COMPREPLY+=($(compgen -c -- "$cur"))
    elif [ -z "$after" ] && [ "${cur:0:1}" = - ]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    else
        set -- $operands
        if [ "$count" -ge $# ]; then
            [ -n "$open" ] || return 0
            count=$(($# - 1))
        fi
        shift "$count"
        _keet_value "$1" "$cur"
    fi
}

complete -F _keet keet
"""


def bash_script() -> str:
    arms = [_arm(command) for command in commands()]
    arms.append(f"        help) operands='{','.join(COMMANDS)}' ;;")
    return (
        _SCRIPT.replace("@VERSION@", __version__)
        .replace("@COMMANDS@", "\n".join(arms))
        .replace("@SUFFIXES@", " ".join(REPORT_SUFFIXES))
        .replace("@NAMES@", " ".join(COMMANDS))
        .replace("@QUIET@", "|".join(QUIET))
        .replace("@QUIET_WORDS@", " ".join(QUIET))
    )


def _arm(command: CompletedCommand) -> str:
    valued = [
        f"{flag}={_kind(option.value)}"
        for option in command.options
        if option.value
        for flag in option.flags
    ]
    settings = {
        "flags": _flags(command),
        "values": valued,
        "operands": [_kind(each) for each in command.operands],
        "open": ["yes"] * command.is_open,
        "program": ["yes"] * command.takes_program,
    }
    set_ = " ".join(f"{name}='{' '.join(words)}'" for name, words in settings.items() if words)
    return f"        {_pattern(command.name)}) {set_} ;;"


def _flags(command: CompletedCommand) -> Iterable[str]:
    return [flag for option in command.options for flag in option.flags]


def _kind(value: CompletedValue) -> str:
    return ",".join(value.words) if value.kind == "words" else value.kind


def _pattern(name: str) -> str:
    return f"'{name}'" if " " in name else name
