#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the manual pages from the public headers and from the command's --help.

    scripts/manual.py COMMAND DIRECTORY

COMMAND is the built cohort; the script runs it with --help for each of its commands.  It
writes to DIRECTORY

    man1/cohort.1, man1/cohort-demo.1, ...  the text of --help
    man3/cohort_wait.3, ...                 each function: its comment, its results, and
                                            its example in examples/manual.c
    man7/cohort.7                           the overview in cohort.h
    man7/cohort-group.7, ...                each other header: its overview, its functions
                                            and its types

scripts/header_comments.py describes the format of comments.  @argument, function(), *new
word*, `code` and the names of constants and headers get markup.
"""

import os
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from header_comments import faults, read_examples, read_headers

COLUMNS = 78

# ---- writing ------------------------------------------------------------------


def escape(text):
    """Escape a text for troff."""
    text = text.replace("\\", "\\e").replace("^", "\\(ha").replace("~", "\\(ti")
    return re.sub(r"(?<![\w)])-(?=[\d-])|(?<=-)-|(?<!\w)-(?=\w)", r"\\-", text)


def literal(text):
    """Escape lines of code for troff."""
    for plain, told in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"),
                        ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(plain, told)
    return [re.sub(r"^([.'])", r"\\&\1", line) for line in text.expandtabs(8).splitlines()]


class Names:
    """The functions, headers and commands that have a page, and the constants."""

    def __init__(self, headers, commands):
        self.functions, self.types, self.constants = {}, {}, set()
        self.headers = {header.name: header for header in headers}
        self.commands = set(commands)
        for header in headers:
            self.constants.update(re.findall(r"\b(?:COHORT_[A-Z0-9_]*[A-Z0-9])\b", re.sub(
                r"/\*.*?\*/", "", header.text, flags=re.S)))
            for function in header.functions():
                self.functions[function.name] = header
            for name in re.findall(r"^(?:struct|enum) (\w+) \{", header.text, flags=re.M):
                self.types[name] = header
            for name in re.findall(r"^typedef .*\(\*(\w+)\)", header.text, flags=re.M):
                self.types[name] = header


class Page:
    """A page, written line by line."""

    def __init__(self, names, name, section, date, version):
        self.names, self.name, self.section = names, name, section
        self.own = {name}
        self.seen = set()
        self.lines = [
            '.\\" Made by scripts/manual.py: do not edit.',
            f".Dd {date}",
            f".Dt {name.upper()} {section}",
            f".Os Cohort {version}",
        ]

    def add(self, *lines):
        """Add lines of troff."""
        self.lines += lines

    def is_own(self, name, section):
        """Return whether this page describes name."""
        return name in self.own and section == self.section

    def see(self, name, section):
        """List a page under SEE ALSO."""
        if not self.is_own(name, section):
            self.seen.add((section, name))

    def reference(self, name, section):
        """Return the macro that refers to a page, even to this page."""
        self.see(name, section)
        return f"Nm {name}" if self.is_own(name, section) else f"Xr {name} {section}"

    def macro(self, word):
        """Return the macro for a word, or None for plain text."""
        match = re.fullmatch(r"(\w+)\(\)", word)
        if match and match[1] in self.names.functions:
            if self.is_own(match[1], 3):
                return f"Fn {match[1]}"
            return self.reference(match[1], 3)
        if match and not word.startswith("_"):
            return f"Fn {match[1]}"
        match = re.fullmatch(r"(?:cohort/)?(\w+)\.h", word)
        if match and match[1] in self.names.headers:
            return self.reference(self.names.headers[match[1]].page, 7)
        if word.startswith("`"):
            code = word[1:-1].replace("\0", " ")
            command = code.replace(" ", "-")
            if command in self.names.commands:
                return self.reference(command, 1)
            return f"Ql {code}"
        if re.fullmatch(r"@\w+", word):
            return f"Fa {word[1:]}"
        if re.fullmatch(r"\*\w[\w\0-]*\*", word):
            return "Em " + word[1:-1].replace("\0", " ")
        if re.fullmatch(r"COHORT_\w+|NULL", word):
            known = word == "NULL" or word in self.names.constants
            return f"{'Dv' if known else 'Ev'} {word}"
        return None

    def text(self, text, plain=False):
        """Add a paragraph; each sentence starts on a new line."""
        text = re.sub(r"([.:?!]\"?\)?)\n", r"\1  ", text).replace("\n", " ")
        text = re.sub(r"`[^`]+`|\*\w[\w -]*\w\*", lambda m: m[0].replace(" ", "\0"), text)
        for sentence in re.split(r"  +", text):
            line = ""
            for word in sentence.split():
                parts = re.fullmatch(r"([(\[]*)(.*?)('s)?([)\],.;:?!]*)", word)
                macro = None if plain else self.macro(parts[2])
                # The parentheses of a call are not punctuation.
                call = re.fullmatch(r"([(\[]*)([\w/]+\(\)|`.*`)('s)?([)\],.;:?!]*)", word)
                if call and not plain and self.macro(call[2]):
                    parts, macro = call, self.macro(call[2])
                if macro:
                    if line:
                        self.add(line)
                    line = ""
                    name, rest = macro.split(" ", 1)
                    self.add(" ".join(["." + name, *parts[1], rest]
                                      + (["Ns", "'s"] if parts[3] else []) + list(parts[4])))
                    continue
                word = escape(word.replace("\0", " "))
                if not plain:
                    word = re.sub(r"@(\w+)", r"\\fI\1\\fP", word)
                if line and len(line) + len(word) >= COLUMNS:
                    self.add(line)
                    line = ""
                line = line + " " + word if line else re.sub(r"^([.'])", r"\\&\1", word)
            if line:
                self.add(line)

    def code(self, lines, offset=" -offset indent"):
        """Add code."""
        self.add(".Bd -literal" + offset, *literal("\n".join(lines)), ".Ed")

    def items(self, items):
        """Add a list."""
        if items[0][0] == "-":
            self.add(".Bl -bullet")
        elif items[0][0][0].isdigit():
            self.add(".Bl -enum")
        else:
            self.add(".Bl -tag -width Ds")
        for tag, text in items:
            if tag == "-" or tag[0].isdigit():
                self.add(".It")
            elif tag.startswith("@"):
                self.add(".It Fa " + " , ".join(re.findall(r"\w+", tag)))
            else:
                macro = self.macro(tag)
                self.add(".It " + (macro or escape(tag)))
            self.text(text)
        self.add(".El")

    def blocks(self, found, heading=".Ss"):
        """Add the events of a comment."""
        fresh = self.lines[-1].startswith((".Sh", ".Ss"))
        for event in found:
            if event[0] == "head":
                title = event[1].upper() if heading == ".Sh" else event[1]
                self.add(f"{heading} {title}")
                fresh = True
                continue
            if event[0] == "para":
                if not fresh:
                    self.add(".Pp")
                self.text(event[1])
            elif event[0] == "code":
                self.code(event[1])
            else:
                self.items(event[1])
            fresh = False

    def write(self, directory):
        """Write the page into a directory, with SEE ALSO at its end."""
        if self.seen:
            self.add(".Sh SEE ALSO")
            seen = sorted(self.seen)
            for i, (section, name) in enumerate(seen):
                self.add(f".Xr {name} {section}" + (" ," if i + 1 < len(seen) else ""))
        folder = os.path.join(directory, f"man{self.section}")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{self.name}.{self.section}")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write("\n".join(self.lines) + "\n")


# ---- pages of functions and headers -------------------------------------------


def all_results(function, functions):
    """Return the results of a function, including those that it shares with another one.

    Shared results about an argument that this function lacks are omitted.  COHORT_OK is first,
    and results that are not the name of a code are last.
    """
    items = list(function.results.items)
    arguments = {re.search(r"(\w+)(\[\])?$", argument)[1] for argument in function.arguments}
    other = function.results.other()
    while other:
        shown = {code for code, _ in items}
        results = functions[other].results
        items += [item for item in results.items if item[0] not in shown and
                  arguments.issuperset(re.findall(r"@(\w+)", item[1]))]
        other = results.other()
    return sorted(items, key=lambda item: 0 if item[0] == "COHORT_OK" else
                  1 if item[0].startswith("COHORT_") else 2)


def return_values(page, function, functions):
    """Add the section RETURN VALUES."""
    page.add(".Sh RETURN VALUES")
    if function.is_void():
        page.add(".Fn " + function.name, "returns no value.")
        return
    text = " ".join(function.results.text.split())
    items = all_results(function, functions)
    if text and not function.results.other():
        page.text(text[0].upper() + text[1:] + (":" if items else "."))
    if items:
        width = min(max(len(code) for code, _ in items), 24)
        page.add(f".Bl -tag -width {'x' * width} -compact")
        for code, text in items:
            page.add(".It " + (page.macro(code) or escape(code)))
            page.text(text)
        page.add(".El")
    if any(code.startswith("COHORT_") for code, _ in items):
        page.add(".Pp", f".Xr {page.names.headers['cohort'].page} 7",
                 "describes the results that any function may return.")


def function_page(page, header, entry, functions, examples):
    """Return a page of section 3."""
    function = entry.function
    summary = " ".join(function.summary.split())
    page.add(".Sh NAME", f".Nm {function.name}", ".Nd " + escape(
        re.sub(r"[@*`]", "", summary)).replace('"', "\\(dq"))
    page.add(".Sh SYNOPSIS", f".In cohort/{header.name}.h")
    page.add(f".Ft {function.result}", f".Fo {function.name}",
             *(f'.Fa "{argument}"' for argument in function.arguments), ".Fc")
    page.add(".Sh DESCRIPTION")
    arguments = entry.events[:1] if entry.events and entry.events[0][0] == "items" else []
    rest = entry.events[len(arguments):]
    page.text(summary[0].upper() + summary[1:] + ".")
    if arguments:
        page.add(".Pp", "The arguments are:")
        page.blocks(arguments)
    page.blocks(rest)
    if not re.search(r"thread|block|otherwise the same as", str(entry.events), flags=re.I):
        page.add(".Pp")
        page.text("May be called from any thread; does not block.")
    return_values(page, function, functions)
    if function.name in examples:
        page.add(".Sh EXAMPLES")
        page.code(examples[function.name], "")
    for name in re.findall(r"\bcohort_\w+", entry.code):
        if name in page.names.types:
            page.see(page.names.types[name].page, 7)
    page.see(header.page, 7)
    page.see("cohort", 7)


def header_page(page, header):
    """Return a page of section 7."""
    page.add(".Sh NAME", f".Nm {header.page}",
             ".Nd " + escape(header.summary[0].lower() + header.summary[1:]))
    page.add(".Sh SYNOPSIS", f".In cohort/{header.name}.h", ".Sh DESCRIPTION")
    if header.name == "cohort" or header.events:
        page.blocks(header.events, ".Sh")
    else:
        page.text(header.summary + ".")
    functions = header.functions()
    if functions:
        page.add(".Sh FUNCTIONS", ".Bl -tag -width Ds")
        for function in functions:
            page.add(f".It {page.reference(function.name, 3)}")
            page.text(function.summary)
        page.add(".El")
    typed = [entry for entry in header.entries if entry.code and not entry.function]
    if typed:
        page.add(".Sh TYPES AND CONSTANTS")
        for entry in typed:
            page.add(".Ss " + entry.title())
            page.blocks([("para", event[1] + ".") if event[0] == "head" else event
                         for event in entry.events])
            page.code(re.sub(r"[ \t]+\\$", r" \\", entry.code, flags=re.M).splitlines())
    for entry in header.entries:
        if not entry.code:
            page.add(".Sh " + entry.events[0][1].upper())
            page.blocks(entry.events[1:])
    page.see("cohort", 7 if header.name != "cohort" else 1)


# ---- pages of the command -----------------------------------------------------


def option_words(words):
    """Yield the macros of a usage line, or of an option."""
    for word in words:
        match = re.fullmatch(r"\[(.*)\](\.\.\.)?", word)
        if match:
            yield from ["Op", *option_words(match[1].split("\0"))]
            if match[2]:
                yield "..."
        elif word.startswith("-") and word.strip(","):
            yield "Fl " + (escape(word.rstrip(",")[1:]).replace("\\-", "-", 1) or "-")
            if word.endswith(","):
                yield ","
        elif word == "|" or re.fullmatch(r"[a-z_]+", word):
            yield word if word == "|" else "Cm " + word
        elif word.endswith("..."):
            yield f"Ar {word[:-3]} ..."
        else:
            yield f"Ar {word}"


def help_events(text):
    """Parse the output of --help into events; an item that starts with '-' is an option."""
    found = []
    for chunk in text.strip("\n").split("\n\n"):
        joined = False
        for line in chunk.splitlines():
            option = re.match(r"  (-.*?|[a-z]\w*|[A-Z][A-Z/ ]+)  +(\S.*)", line) or \
                re.fullmatch(r"  (-\S+ \S+, -\S+ \S+)()", line) or \
                re.match(r"  (--\S+ \S+) (\S.*)", line)
            if option:
                if not found or found[-1][0] != "items" or not joined:
                    found.append(("items", []))
                found[-1][1].append([option[1].rstrip(), option[2]])
            elif line.startswith("      ") and joined and found[-1][0] == "items":
                found[-1][1][-1][1] += "\n" + line.strip()
            elif line.startswith("  "):
                if joined and found[-1][0] == "code":
                    found[-1][1].append(line.strip())
                else:
                    found.append(("code", [line.strip()]))
            elif joined and found[-1][0] == "para":
                found[-1] = ("para", found[-1][1] + "\n" + line)
            else:
                found.append(("para", line))
            joined = True
    return found


def command_page(page, name, summary, text):
    """Return a page of section 1."""
    usage, _, rest = text.partition("\n\n")
    page.add(".Sh NAME", f".Nm {name}", ".Nd " + escape(summary[0].lower() + summary[1:]),
             ".Sh SYNOPSIS")
    for line in usage.splitlines():
        line = re.sub(r"^usage:| ,.*|,.*", "", line).strip()
        line = re.sub(r"\[[^\]]*\]|\S+ \| \S+", lambda m: m[0].replace(" ", "\0"), line)
        page.add(".Nm cohort")
        # Put each option on its own line, because .Op extends to the end of its line.
        for word in line.split()[1:]:
            words = [word] if word.startswith("[") else word.split("\0")
            page.add("." + " ".join(option_words(words)))
    page.add(".Sh DESCRIPTION")
    found = help_events(rest)
    status = [event for event in found if event[0] == "para" and
              "Exit status: " in event[1]]
    for event in found:
        if event[0] == "items":
            page.add(".Bl -tag -width Ds")
            for tag, told in event[1]:
                command = "cohort-" + tag
                if command in page.names.commands:
                    page.add(f".It {page.reference(command, 1)}")
                elif tag.startswith("-"):
                    page.add(".It " + " ".join(option_words(tag.split())))
                else:
                    page.add(f".It Cm {tag}")
                page.text(told)
            page.add(".El")
        elif event not in status:
            page.blocks([event])
        else:
            before = event[1].partition("Exit status: ")[0].strip()
            if before:
                page.blocks([("para", before)])
    if status:
        page.add(".Sh EXIT STATUS")
        for event in status:
            told = event[1].partition("Exit status: ")[2]
            page.text(told[0].upper() + told[1:])


def help_of(command, words):
    """Return the output of --help, of the command or of one of its commands."""
    return subprocess.run([command, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout


def commands_of(command):
    """Return the pages of section 1: the summary and the help of each."""
    text = help_of(command, [])
    found = {"cohort": (re.search(r"\n\n(.*?)\.\n", text)[1], text)}
    for name, summary in re.findall(r"^  (\w+) +(\S.*)$", text, flags=re.M):
        text = help_of(command, [name])
        found["cohort-" + name] = (summary, text)
        # Its own subcommands.
        for under in re.findall(rf"^ +cohort {name} ([a-z]+) ", text, flags=re.M):
            told = help_of(command, [name, under])
            first = " ".join(told.split("\n\n")[1].split())
            first = re.split(r"[,.:](?: |$)", first)[0]
            found[f"cohort-{name}-{under}"] = (first[0].lower() + first[1:], told)
    return found


def date_of(version):
    """Return the date of a version from CHANGELOG.md, in the format of manual pages."""
    with open("CHANGELOG.md", encoding="utf-8") as stream:
        day = re.search(rf"^## {re.escape(version)}\n\n(\d+-\d+-\d+)\.", stream.read(), flags=re.M)
    if not day:
        sys.exit(f"CHANGELOG.md does not begin the section {version} with its day")
    day = time.strptime(day[1], "%Y-%m-%d")
    return time.strftime(f"%B {day.tm_mday}, %Y", day)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    command, directory = map(os.path.abspath, sys.argv[1:])
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    headers = read_headers()
    wrong = faults(headers)
    if wrong:
        sys.exit("\n".join(wrong))
    commands = commands_of(command)
    names = Names(headers, commands)
    version = ".".join(re.findall(r"COHORT_VERSION_\w+ (\d+)", next(
        header.text for header in headers if header.name == "version")))
    made = (date_of(version), version)
    for section in (1, 3, 7):
        shutil.rmtree(os.path.join(directory, f"man{section}"), ignore_errors=True)
    for name, (summary, text) in commands.items():
        page = Page(names, name, 1, *made)
        command_page(page, name, summary, text)
        page.see("cohort", 1)
        page.see("cohort", 7)
        page.write(directory)
    functions = {function.name: function for header in headers
                 for function in header.functions()}
    examples = read_examples()
    for header in headers:
        page = Page(names, header.page, 7, *made)
        header_page(page, header)
        page.write(directory)
        for entry in header.entries:
            if entry.function:
                page = Page(names, entry.function.name, 3, *made)
                function_page(page, header, entry, functions, examples)
                page.write(directory)


if __name__ == "__main__":
    main()
