# SPDX-License-Identifier: Apache-2.0
"""Parse the public headers: declarations and their comments.

scripts/manual.py generates pages from them, and scripts/check-docs.py checks them.

A comment becomes a list of events: ("para", text), ("head", text), ("code", lines), and
("items", [[tag, text], ...]).  It consists of

  - paragraphs, and headings (one line by itself, without a full stop);
  - lists (" - ", " 1. "), and tables (" NAME  text");
  - code (lines that start with a tab).

Each function has a comment of its own, in this order:

    name - what it does, as an imperative
    @argument: text

    Paragraphs.

    Returns:
      COHORT_OK  text, which may continue on
                 further lines
      CODE       text

A result that needs no list is a sentence, "Returns: text", which a list may follow.  If the
sentence starts with "the same as cohort_other()", or if a comment without "Returns:" ends in
"Otherwise the same as cohort_other().", the function has the results of the other function.
"""

import os
import re

HEADERS = "include/cohort"
EXAMPLES = "examples/manual.c"


def items_of(text):
    """Split a header into its top-level comments, each with the code that follows it."""
    found = []
    pieces = re.split(r"^(/\*.*?\*/)$", text, flags=re.M | re.S)
    for comment, code in zip(pieces[1::2], pieces[2::2]):
        lines = comment.strip("/*").rstrip().splitlines()
        lines = [re.sub(r"^ \* ?", "", line) if i else line.strip()
                 for i, line in enumerate(lines)]
        code = re.sub(r"^#(ifdef|endif|if|else|define COHORT_API).*\n?", "", code, flags=re.M)
        code = re.sub(r"^(extern \"C\" \{|\}|#include.*)\n", "", code, flags=re.M)
        found.append((lines[1:] if lines and not lines[0] else lines, code.strip("\n")))
    return found


def events(lines):
    """Parse the lines of a comment into paragraphs, lists, headings and code."""
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


class Results:
    """The results of a function: a sentence, a list of codes, or both."""

    def __init__(self, lines):
        self.text, self.items = "", []
        self.wrong = None
        for line in lines:
            item = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line)
            if item and not line.startswith("   "):
                self.items.append([item[1], item[2] or ""])
            elif self.items and line.startswith("   "):
                last = self.items[-1]
                last[1] = (last[1] + "\n" + line.strip()).strip()
            elif not self.items:
                self.text = (self.text + "\n" + line.strip()).strip()
            else:
                self.wrong = f'"{line.strip()}" is neither a result nor part of one'
        for code, text in self.items:
            if not text:
                self.wrong = f"the result {code} has no text"
        if not self.text and not self.items:
            self.wrong = '"Returns:" is empty'

    def other(self):
        """Return the name of the function with the same results, or None."""
        match = re.match(r"the same\s+as\s+(\w+)\(\)", self.text)
        return match and match[1]


class Function:
    """A declared function."""

    def __init__(self, match):
        self.result = " ".join(match[1].split())
        self.name = match[2]
        self.arguments = [" ".join(part.split()) for part in match[3].split(",")]
        self.summary = ""
        self.results = None

    def is_void(self):
        """Return whether the function has no result."""
        return self.result == "void"


class Entry:
    """A comment and the declaration that it describes: a function, types, or neither."""

    def __init__(self, lines, code):
        self.code = code
        self.wrong = []
        functions = [Function(match) for match in re.finditer(
            r"COHORT_API\s+([^;(]*?)(\w+)\(([^)]*)\);", code)]
        self.function = functions[0] if functions else None
        if not self.function:
            self.events = events(lines)
            return
        for function in functions[1:]:
            self.wrong.append(f"{function.name}: has no comment of its own")
        self.parse(lines)

    def parse(self, lines):
        """Parse the comment of a function."""
        function = self.function
        match = re.match(r"(cohort_\w+) +- (.*)", lines[0])
        if match and match[1] == function.name:
            function.summary = match[2]
            lines = lines[1:]
            while lines and lines[0].startswith("  "):
                function.summary += "\n" + lines[0].strip()
                lines = lines[1:]
        else:
            self.wrong.append(f'{function.name}: the comment does not start with '
                              f'"{function.name} - "')
        start = next((i for i, line in enumerate(lines) if line.startswith("Returns:")), None)
        if start is not None:
            function.results = Results([lines[start][8:]] + lines[start + 1:])
            lines = lines[:start]
        like = re.search(r"[Oo]therwise\s+the\s+same\s+as\s+(\w+\(\))\.$", "\n".join(lines).rstrip())
        if like and not function.results:
            function.results = Results(["the same as " + like[1]])
        if function.is_void() == (function.results is not None):
            self.wrong.append(f'{function.name}: a void function has no "Returns:", and any '
                              'other function has one')
        elif function.results and function.results.wrong:
            self.wrong.append(f"{function.name}: {function.results.wrong}")
        self.events = events(lines)
        described = {name for event in self.events[:1] if event[0] == "items"
                     for tag, _ in event[1] for name in re.findall(r"@(\w+)", tag)}
        described -= {re.search(r"(\w+)(\[\])?$", argument)[1]
                      for argument in function.arguments}
        self.wrong += [f"{function.name}: there is no argument {name}"
                       for name in sorted(described)]

    def title(self):
        """Return the name of a type, or of a macro."""
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
        self.wrong = [wrong for entry in self.entries for wrong in entry.wrong]
        if re.sub(r"^struct \w+;", "", code, flags=re.M).strip():
            self.wrong.append("a declaration has no comment")

    def functions(self):
        """Return all functions, in the order of their declarations."""
        return [entry.function for entry in self.entries if entry.function]


def read_headers():
    """Return all public headers, by name."""
    return [Header(file) for file in sorted(os.listdir(HEADERS)) if file.endswith(".h")]


def first_functions(headers):
    """Return the names of the functions that cohort.h introduces first."""
    text = next(header.text for header in headers if header.name == "cohort")
    part = re.search(r"^ \* The first thirty functions$(.*?)^ \* [A-Z][^.:;]*\n \*\n", text,
                     flags=re.M | re.S)
    return re.findall(r"\b(cohort_\w+)\(\)", part[1]) if part else []


def read_examples():
    """Return the example of each function, as lines of code.

    In examples/manual.c a comment "Example:" names the functions for which the code up to the
    next comment is the example.
    """
    found = {}
    with open(EXAMPLES, encoding="utf-8") as stream:
        text = stream.read()
    for names, code in re.findall(r"^/\* Example: (.*?) \*/\n(.*?)(?=^/\*)", text,
                                  flags=re.M | re.S):
        for name in re.findall(r"\w+", names):
            found[name] = code.strip("\n").splitlines()
    return found


def faults(headers):
    """Return a line for each problem in the headers or the examples."""
    found = [f"{HEADERS}/{header.name}.h: {wrong}" for header in headers
             for wrong in header.wrong]
    functions = {function.name: function for header in headers
                 for function in header.functions()}
    for function in functions.values():
        other = function.results and function.results.other()
        if other and (other not in functions or not functions[other].results):
            found.append(f"{function.name}: {other}() has no results")
        elif other and functions[other].results.other() == function.name:
            found.append(f"{function.name}: {other}() returns the same as this one")
    first = first_functions(headers)
    if len(first) != 30:
        found.append(f"cohort.h introduces {len(first)} functions first, not 30")
    examples = read_examples()
    found += [f"{name}: {EXAMPLES} has no example" for name in first if name not in examples]
    found += [f"{EXAMPLES}: {name} is not a function" for name in examples
              if name not in functions]
    return found
