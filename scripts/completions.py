#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make completions for bash, zsh and fish from the command's help.

    scripts/completions.py COMMAND DIRECTORY

COMMAND is the built cohort, whose --help is read for each of its commands.  Writes
cohort.bash, _cohort (for zsh) and cohort.fish to DIRECTORY.

A new command or option needs no change here.  The values of an option are read from its
help:

    --platform P     gpu or host (default: see cohort info)   one of these words
    -c 0|1           check the results                        one of these words
    --shapes FILE    the tensors                              a file; also OUT, PATH
    --agent COMMAND  what starts a process on a host          a command
    -d TYPE          float32 (default), another type, or all  a type of types.h, or all
    --only METHODS   measure only these methods               words listed beside options

Any other value is a number, or a name that only the user knows.
"""

import os
import re
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from header_comments import HEADERS
from manual import commands_of, help_events

KINDS = {"FILE": "file", "OUT": "file", "PATH": "file", "DIRECTORY": "file", "FOLDER": "file",
         "COMMAND": "command", "PROGRAM": "program"}


def choices(text):
    """Return the words that an option's help lists as choices."""
    text = re.split(r"[:;.](?: |$)", re.sub(r" ?\([^)]*\)?", "", text))[0]
    numbers = re.match(r"\d+(?:, \d+)* or \d+\b", text)
    words = re.split(r", or |, | or ", numbers[0] if numbers else text)
    return words if len(words) > 1 and all(re.fullmatch(r"\w+", word) for word in words) else []


class Option:
    """An option: its spellings, its description, and the words that can follow it."""

    def __init__(self, spelling, text, plain):
        *flags, last = spelling.split(", ")
        last, _, self.metavar = last.partition(" ")
        self.flags = flags + [last]
        text = " ".join(text.split())
        self.text = re.split(r"[;:.](?: |$)| \(", text)[0]
        self.kind = KINDS.get(self.metavar, "words")
        if self.metavar == "TYPE":
            with open(os.path.join(HEADERS, "types.h"), encoding="utf-8") as stream:
                self.words = re.findall(r'X\(COHORT_\w+, \d+, \d+, "(\w+)"\)', stream.read())
            self.words += re.findall(r"\bor (all)$", text)
        elif self.metavar == "METHODS":
            self.words = plain
        elif "|" in self.metavar:
            self.words = self.metavar.split("|")
        elif self.metavar == "PATH":
            self.words = re.findall(r"PATH, or (\w+)", text)
        else:
            self.words = choices(text) if self.metavar else []
        if self.text in self.words:
            self.text = self.metavar.lower()


class Command:
    """The command or one of its subcommands: its options and its other arguments."""

    def __init__(self, path, summary, text, paths):
        self.path, self.summary = path, summary
        items = [item for event in help_events(text) if event[0] == "items"
                 for item in event[1]]
        plain = [tag for tag, _ in items if not tag.startswith("-")]
        # "-n, --processes N" is one option, but "--first-bytes N, --bucket-bytes N" are two.
        self.options = [Option(spelling, told, plain) for tag, told in items
                        if tag.startswith("-")
                        for spelling in re.split(r"(?<=[A-Z]), (?=-)", tag)]
        usage = text.partition("\n\n")[0]
        if not path:
            self.options += [Option(flag, text, []) for flag, text in (
                ("--help", "what the commands are"), ("--version", "the version"))
                             if flag in usage]
        self.under = [other[len(path):].strip() for other in paths
                      if other.startswith(path) and
                      len(other.split()) == len(path.split()) + 1]
        # The arguments that the first usage line requires, without values of options.
        demanded = re.sub(r"--?[\w-]+ [A-Z]+", "", usage.splitlines()[0])
        self.kind = next((KINDS[word] for word in re.findall(r"\b[A-Z]+\b", demanded)
                          if KINDS.get(word) in ("file", "program")), "words")
        listed = re.search(r"^[A-Z]+ is (\w+), or one of these:\n((?:  .*\n)+)", text,
                           flags=re.M)
        self.words = [listed[1], *re.findall(r"\w+", listed[2])] if listed else []
        self.words += self.under


def quoted(text):
    """Return text in single quotes, valid in all three shells."""
    return "'" + text.replace("'", "'\\''") + "'"


# ---- bash ---------------------------------------------------------------------

BASH = r"""# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2207
# bash completion for cohort, made by scripts/completions.py

# For a command: its options, those that take a value, its commands, and what may follow.
_cohort_command()
{
	options='' valued='' under='' kind=words words=''
	case $1 in
@commands@	esac
}

# For an option of a command: what may follow.
_cohort_option()
{
	kind=words words=''
	case "$1 $2" in
@options@	esac
}

_cohort_offer()
{
	local line

	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	[ "$kind" != words ] || return 0
	compopt -o filenames 2>/dev/null
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done < <([ "$kind" = file ] || compgen -c -- "$cur"; compgen -f -- "$cur")
}

_cohort()
{
	local cur=${COMP_WORDS[COMP_CWORD]} command='' word i
	local options valued under kind words

	[ "$cur" != = ] || cur= # readline splits --option=value there
	COMPREPLY=()
	_cohort_command ''
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ " $valued " == *" $word "* ]]; then
			((++i))
			[ "${COMP_WORDS[i]}" != = ] || ((++i))
			if ((i >= COMP_CWORD)); then
				_cohort_option "$command" "$word"
				_cohort_offer
				return
			fi
		elif [[ " $under " == *" $word "* ]]; then
			command="${command:+$command }$word"
			_cohort_command "$command"
		elif [[ $word != -?* || $word == -- ]]; then
			[ "$kind" != program ] || break
			[ "$kind" = file ] || words='' under=''
		fi
	done
	if ((i < COMP_CWORD)); then
		[ "$word" != -- ] || ((++i))
	fi
	if ((i < COMP_CWORD)); then
		kind='file'
		if declare -F _command_offset >/dev/null; then
			_command_offset "$i"
		else
			_cohort_offer
		fi
	elif [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options" -- "$cur"))
	else
		_cohort_offer
	fi
}
complete -F _cohort cohort
"""


def bash(commands):
    """Return the completion for bash."""
    of_commands = of_options = ""
    for command in commands:
        flags = [flag for option in command.options for flag in option.flags]
        valued = [flag for option in command.options if option.metavar for flag in option.flags]
        of_commands += f"\t{quoted(command.path)})\n" + "".join(
            f"\t\t{name}={quoted(' '.join(words))}\n" for name, words in (
                ("options", flags), ("valued", valued), ("under", command.under),
                ("words", command.words)) if words) + (
                    f"\t\tkind='{command.kind}'\n" if command.kind != "words" else "") + "\t\t;;\n"
        for option in command.options:
            if option.words or option.kind != "words":
                of_options += "\t" + " | ".join(
                    quoted(f"{command.path} {flag}") for flag in option.flags)
                words = quoted(" ".join(option.words))
                of_options += f")\n\t\tkind='{option.kind}' words={words}\n\t\t;;\n"
    return BASH.replace("@commands@", of_commands).replace("@options@", of_options)


# ---- zsh ----------------------------------------------------------------------


def zsh_value(kind, words):
    """Return the action of zsh's _arguments for a value."""
    if kind == "command":
        return "_command_names"
    if kind == "file":
        return "_files" if not words else \
            f'{{ compadd {" ".join(words)}; _files }}'
    return f"({' '.join(words)})" if words else " "


def zsh_name(path):
    """Return the name of the function for a command."""
    return "_cohort" + "".join("_" + word for word in path.split())


def zsh(commands):
    """Return the completion for zsh."""
    lines = ["#compdef cohort", "# SPDX-License-Identifier: Apache-2.0",
             "# zsh completion for cohort, made by scripts/completions.py"]
    summaries = {command.path: command.summary for command in commands}
    for command in commands:
        lines += ["", f"{zsh_name(command.path)}()", "{"]
        specs = []
        for option in command.options:
            told = re.sub(r"([\[\]:\\])", r"\\\1", option.text)
            exclude = "(- *)" if "--help" in option.flags or "--version" in option.flags else \
                "(" + " ".join(option.flags) + ")"
            for flag in option.flags:
                spec = exclude + flag
                if option.metavar:
                    metavar = re.sub(r"([:\\])", r"\\\1", option.metavar)
                    spec += ("=" if flag.startswith("--") else "") + f"[{told}]:{metavar}:" + \
                        zsh_value(option.kind, option.words)
                else:
                    spec += f"[{told}]"
                specs.append(quoted(spec))
        if command.kind == "program":
            specs += [quoted("(-)1:program:_command_names -e"), quoted("*::arguments:_normal")]
        elif command.kind == "file":
            specs.append(quoted("*:file:_files"))
        elif command.words:
            told = ""
            for word in command.words:
                summary = summaries.get(f"{command.path} {word}".strip(), "")
                told += "\n\t\t" + quoted(":".join(filter(None, [word, summary.replace(
                    ":", "\\:")])))
            lines += ["\tlocal -a names", f"\tnames=({told})"]
        if command.under:
            lines += ["\tif (( CURRENT > 2 )); then", "\t\tcase $words[2] in"]
            for word in command.under:
                lines += [f"\t\t{word})", "\t\t\tshift words", "\t\t\t(( CURRENT-- ))",
                          f"\t\t\t{zsh_name((command.path + ' ' + word).strip())}",
                          "\t\t\treturn ;;"]
            lines += ["\t\tesac", "\tfi"]
        if command.kind == "words" and command.words:
            specs.append(quoted("1:command:{ _describe command names }"))
        lines += ["\t_arguments \\\n\t\t" + " \\\n\t\t".join(specs), "}"]
    lines += ["", '_cohort "$@"', ""]
    return "\n".join(lines)


# ---- fish ---------------------------------------------------------------------

FISH = r"""# SPDX-License-Identifier: Apache-2.0
# fish completion for cohort, made by scripts/completions.py

# Return whether the words so far are of this command, and not of its subcommands, which are
# the arguments after --.
function __cohort_at
    set -l words (commandline -opc)
    set -l count (math (contains -i -- -- $argv) - 1)
    test $count -eq 0 || test "$words[2..$(math $count + 1)]" = "$argv[1..$count]" || return 1
    ! contains -- "$words[$(math $count + 2)]" $argv[(math $count + 2)..]
end

# Return whether the words so far are of this command and name no program.  The arguments after
# the command are its options that take a value.
function __cohort_before_program
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1] || return 1
    set -l skip 0
    for word in $words[3..]
        if test $skip -eq 1
            set skip 0
        else if contains -- $word $argv[2..]
            set skip 1
        else if test $word = -- || ! string match -q -- '-*' $word
            return 1
        end
    end
end
"""


def fish(commands):
    """Return the completion for fish."""
    lines = [FISH, "complete -c cohort -f"]
    summaries = {command.path: command.summary for command in commands}
    for command in commands:
        at = " ".join(["__cohort_at", command.path, "--", *command.under]).replace("  ", " ")
        valued = " ".join(flag for option in command.options if option.metavar
                          for flag in option.flags)
        if command.kind == "program":
            at = f"__cohort_before_program {command.path} {valued}"
        start = f"complete -c cohort -n {quoted(at)}"
        for option in command.options:
            line = start
            for flag in option.flags:
                line += f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}"
            if option.metavar:
                line += " -r -F" if option.kind == "file" else " -x"
                words = " ".join(option.words)
                if option.kind == "command":
                    words = "(__fish_complete_command)"
                if words:
                    line += " -a " + quoted(words)
            lines.append(line + (f" -d {quoted(option.text)}" if option.text else ""))
        for word in command.words:
            path = f"{command.path} {word}".strip()
            lines.append(f"{start} -a {word}" + (
                f" -d {quoted(summaries[path])}" if path in summaries else ""))
        if command.kind == "file":
            lines.append(start + " -F")
        elif command.kind == "program":
            lines.append(f"complete -c cohort -n '__cohort_at {command.path} --' -F -a " + quoted(
                f"(__fish_complete_subcommand --fcs-skip=2 {valued})"))
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    command, directory = map(os.path.abspath, sys.argv[1:])
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    found = {name.replace("-", " ").partition(" ")[2]: told
             for name, told in commands_of(command).items()}
    commands = [Command(path, summary, text, [other for other in found if other])
                for path, (summary, text) in found.items()]
    os.makedirs(directory, exist_ok=True)
    for name, make in (("cohort.bash", bash), ("_cohort", zsh), ("cohort.fish", fish)):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as stream:
            stream.write(make(commands))


if __name__ == "__main__":
    main()
