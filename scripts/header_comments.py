# SPDX-License-Identifier: Apache-2.0
"""The public headers as data, for scripts/manual.py: declarations and their comments.

A comment is a list of events: ("para", text), ("head", text), ("code", lines), and
("items", [[tag, text], ...]).  It is read as

  - paragraphs, and headings (one line, alone, without a full stop);
  - lists (" - ", " 1. "), and tables of names (" NAME  text");
  - code (lines that begin with a tab).

A function's comment begins with a line "name - what it does" for each function, and
lines "@argument: text".  A paragraph that begins with COHORT_OK, maybe after "Begin: ",
tells results.
"""

import os
import re
import sys

HEADERS = "include/cohort"

def items_of(text):
    """The top level of a header: each comment with the code behind it."""
    found = []
    pieces = re.split(r"^(/\*.*?\*/)$", text, flags=re.M | re.S)
    for comment, code in zip(pieces[1::2], pieces[2::2]):
        lines = comment.strip("/*").rstrip().splitlines()
        lines = [re.sub(r"^ \* ?", "", line) if i else line.strip()
                 for i, line in enumerate(lines)]
        # Types without a comment stand behind others', after a blank line.
        code = re.sub(r"^#(ifdef|endif|if|else|define COHORT_API).*\n?", "", code, flags=re.M)
        code = re.sub(r"^(extern \"C\" \{|\}|#include.*)\n", "", code, flags=re.M)
        found.append((lines[1:] if lines and not lines[0] else lines, code.strip("\n")))
    return found


def events(lines):
    """The paragraphs, lists, headings and code that a comment's lines are."""
    found = []
    open_list = False
    for i, line in enumerate(lines):
        before = lines[i - 1].strip() if i else ""
        after = lines[i + 1].strip() if i + 1 < len(lines) else ""
        item = (re.match(r"()( - )(.*)", line) or
                re.match(r"( )(\d+\.) +(.*)", line) or
                re.match(r"( )(@\w+(?:, @\w+)*): +(.*)", " " + line) or
                re.match(r"( )([\w.-]+(?: [\w.|]+)?)  +(\S.*)", line))
        if not line.strip():
            if not (after and lines[i + 1].startswith("\t") and found[-1][0] == "code"):
                open_list = False
            found.append(("gap",))
        elif line.startswith("\t"):
            if found and found[-1][0] == "code":
                found[-1][1].append(line[1:])
            else:
                found.append(("code", [line[1:]]))
        elif item and (open_list or not before or item[2].startswith("@")
                       or item[2] == " - " or found[-1][0] == "items"):
            if not found or found[-1][0] != "items":
                found.append(("items", []))
            found[-1][1].append([item[2].strip(), item[3]])
            open_list = True
        elif open_list and line.startswith("  "):
            found[-1][1][-1][1] += "\n" + line.strip()
        elif not before and not after and re.fullmatch(r"[A-Z][^.:;]*", line):
            found.append(("head", line))
        elif found and found[-1][0] == "para":
            found[-1] = ("para", found[-1][1] + "\n" + line.strip())
        else:
            found.append(("para", line.strip()))
    return [event for event in found if event[0] != "gap"]


class Function:
    """A declared function."""

    def __init__(self, match):
        self.result = " ".join(match[1].split())
        self.name = match[2]
        self.arguments = [" ".join(part.split()) for part in match[3].split(",")]
        self.summary = ""


class Entry:
    """A comment and what it is about: functions, types, or neither."""

    def __init__(self, lines, code):
        self.code = code
        self.functions = [Function(match) for match in re.finditer(
            r"COHORT_API\s+([^;(]*?)(\w+)\(([^)]*)\);", code)]
        by_name = {function.name: function for function in self.functions}
        name = None
        while lines:
            match = re.match(r"(cohort_\w+) +- (.*)", lines[0])
            if match and match[1] in by_name:
                name = match[1]
                by_name[name].summary = match[2]
            elif name and lines[0].startswith("  "):
                by_name[name].summary += "\n" + lines[0].strip()
            else:
                break
            lines = lines[1:]
        self.events = events(lines)
        told = {name for event in self.events[:1] if event[0] == "items"
                for tag, _ in event[1] for name in re.findall(r"@(\w+)", tag)}
        for function in self.functions:
            if not function.summary:
                sys.exit(f"{function.name}: no line 'name - what it does'")
            told -= {re.search(r"(\w+)(\[\])?$", argument)[1]
                     for argument in function.arguments}
        if self.functions and told:
            sys.exit(f"{self.functions[0].name}: no argument {', '.join(sorted(told))}")

    def title(self):
        """What a type, or else a macro, is called."""
        return (re.search(r"^((?:struct|enum) \w+) \{", self.code, flags=re.M) or
                re.search(r"^typedef .*\(\*(\w+)\)", self.code, flags=re.M) or
                re.search(r"^#define (\w+)", self.code, flags=re.M))[1]


class Header:
    """A public header."""

    def __init__(self, file):
        self.name = file[:-2]
        self.page = "cohort" if self.name == "cohort" else "cohort-" + self.name
        with open(os.path.join(HEADERS, file), encoding="utf-8") as stream:
            self.text = stream.read()
        items = items_of(self.text.split("*/", 1)[1])
        about, code = items[0]
        summary, sep, rest = "\n".join(about).partition("\n\n")
        self.summary = re.sub(r"^cohort - ", "", " ".join(summary.split()))
        self.events = events(rest.splitlines() if sep else [])
        self.entries = [Entry(lines, code) for lines, code in items[1:]]
        if re.sub(r"^struct \w+;", "", code, flags=re.M).strip():
            sys.exit(f"{file}: a declaration without a comment")

    def functions(self):
        """All of them, in their order."""
        return [function for entry in self.entries for function in entry.functions]
