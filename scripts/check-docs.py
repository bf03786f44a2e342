#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the project's Markdown, and print one line for each problem.

usage: check-docs.py [FILE...]

FILE defaults to each *.md that git tracks or does not ignore.  The script checks relative links
and their anchors, by GitHub's rules; headings, code blocks and tables; that images have a text;
the length of lines; and that the project's files, functions and variables that a page names
exist.  README.md must fit on a page.  Without FILE the script also checks that each function of
the headers has its own comment, which lists its results; that the first thirty functions have an
example; and that the headings to which headers refer exist.
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from header_comments import faults, read_headers

MOST_COLUMNS = 100
README_LINES = 150
LANGUAGES = {"c", "cmake", "python", "rust", "sh", "text"}

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*(?:\([^()]*\))?[^()\s]*)\)")
PLACE = re.compile(r"^(?:src|tests|include|docs|examples|scripts|bench|bindings|\.ci)/[\w./-]+$")
DRAWN = re.compile(r"(?<![\w./-])(?:src|tests|include|docs|examples|scripts|bench|bindings)/[\w./-]*")


def files_of_project():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"],
                         capture_output=True, text=True, check=True).stdout
    return [name for name in out.split("\n") if name and os.path.exists(name)]


def plain(heading):
    """Return the text of a heading without markup."""
    heading = LINK.sub(lambda m: m.group(2), heading)
    return re.sub(r"[`*]", "", heading).strip()


def slug(heading):
    """Return the anchor of a heading on GitHub."""
    text = plain(heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Page:
    def __init__(self, name):
        self.name = name
        with open(name, encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.wrong = []
        self.anchors = set()
        self.text = []  # (number, line) outside of code blocks
        self.drawn = []  # (number, line) in code blocks of the language text
        self.parse()

    def complain(self, number, what):
        self.wrong.append(f"{self.name}:{number}: {what}")

    def parse(self):
        fence, language, level, counts = None, "", 0, {}
        if self.lines[-1] or self.lines[-2:-1] == [""]:
            self.complain(len(self.lines), "does not end with one newline")
        for number, line in enumerate(self.lines, 1):
            opened = re.match(r"^ *```(.*)$", line)
            if opened:
                if fence is None:
                    fence = number
                    language = opened.group(1).split(" ")[0]
                    if language not in LANGUAGES:
                        self.complain(number, f'a code block of "{language}", not of '
                                      + ", ".join(sorted(LANGUAGES)))
                elif opened.group(1):
                    self.complain(number, f"the code block of line {fence} is open")
                else:
                    fence = None
                continue
            if fence is not None:
                if language == "text":
                    self.drawn.append((number, line))
                continue
            self.text.append((number, line))
            heading = re.match(r"^(#+)(.*)$", line)
            if not heading:
                continue
            depth = len(heading.group(1))
            if not heading.group(2).startswith(" ") or not heading.group(2).strip():
                self.complain(number, "a heading is #, a space and a text")
            if depth > level + 1:
                self.complain(number, f"a heading of level {depth} below one of {level}")
            if depth == 1 and level:
                self.complain(number, "a second title")
            around = self.lines[number - 2:number - 1] + self.lines[number:number + 1]
            if any(text for text in (around if number > 1 else around[-1:])):
                self.complain(number, "a heading has empty lines around it")
            level = depth
            anchor = slug(heading.group(2))
            n = counts.get(anchor, 0)
            counts[anchor] = n + 1
            self.anchors.add(f"{anchor}-{n}" if n else anchor)
        if fence is not None:
            self.complain(fence, "a code block that does not end")
        if level == 0:
            self.complain(1, "no title")

    def check_tables(self):
        rows = []
        for number, line in self.text + [(0, "")]:
            if line.lstrip().startswith("|") and (not rows or number == rows[-1][0] + 1):
                rows.append((number, line.strip()))
                continue
            if rows:
                self.check_table(rows)
            rows = [(number, line.strip())] if line.lstrip().startswith("|") else []

    def check_table(self, rows):
        def cells(line):
            line = re.sub(r"`[^`]*`", "", line).replace(r"\|", "")
            return line.strip("|").count("|") + 1 if line.endswith("|") else 0

        width = cells(rows[0][1])
        if len(rows) < 2 or not re.match(r"^\|( *:?-+:? *\|)+$", rows[1][1]):
            self.complain(rows[0][0], "a table without a line of | --- | below its heads")
            return
        before = self.lines[rows[0][0] - 2] if rows[0][0] > 1 else ""
        if before.strip():
            self.complain(rows[0][0], "a table has an empty line before it")
        for number, line in rows:
            if cells(line) != width:
                self.complain(number, f"a row of {cells(line)} cells in a table of {width}")

    def check_links(self, pages):
        for number, line in self.joined():
            bare = re.sub(r"`[^`]*`", lambda m: " " * len(m.group(0)), line)
            for match in LINK.finditer(bare):
                text, target = match.group(2), match.group(3)
                if not text.strip() and "`" not in line[match.start():match.end()]:
                    self.complain(number, f"a link to {target} without a text")
                if re.match(r"^[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(self.name), path)) \
                    if path else self.name
                if not os.path.exists(path) or path.startswith(".."):
                    self.complain(number, f"{target}: no such file")
                elif anchor and path.endswith(".md"):
                    page = pages.setdefault(path, None) or Page(path)
                    pages[path] = page
                    if anchor not in page.anchors:
                        self.complain(number, f"{target}: no such heading")

    def joined(self):
        """Yield each paragraph as one line, because a link may cross the end of a line."""
        begin, parts = 0, []
        for number, line in self.text + [(0, "")]:
            alone = line.lstrip().startswith(("|", "#"))
            if parts and (not line.strip() or alone or number != begin + len(parts)):
                yield begin, " ".join(parts)
                parts = []
            if alone:
                yield number, line
            elif line.strip():
                begin = begin if parts else number
                parts.append(line.strip())

    def check_length(self):
        for number, line in self.text:
            if len(line) > MOST_COLUMNS and not line.lstrip().startswith("|"):
                self.complain(number, f"{len(line)} columns, the most is {MOST_COLUMNS}")

    def check_names(self, names):
        for number, line in self.drawn:
            for place in re.findall(DRAWN, line):
                if not os.path.exists(place):
                    self.complain(number, f"{place}: no such file")
        for number, line in self.joined():
            if line.count("`") % 2:
                self.complain(number, "a ` without another in its paragraph")
            for code in re.findall(r"`([^`]+)`", line):
                if PLACE.match(code) and not os.path.exists(code):
                    self.complain(number, f"{code}: no such file")
                for name in re.findall(r"\bcohort_\w+(?=\()", code):
                    if name not in names:
                        self.complain(number, f"{name}(): no such function")
                for name in re.findall(r"\bCOHORT_[A-Z0-9_]*[A-Z0-9]\b", code):
                    if name not in names:
                        self.complain(number, f"{name}: no such constant or variable")


def check_references(pages):
    """Return a line for each reference of a header to a heading that does not exist."""
    wrong = []
    for header in read_headers():
        text = re.sub(r"\s+(?:\* )?", " ", header.text)
        for name, heading in re.findall(r'(docs/[\w-]+\.md), "([^"]+)"', text):
            page = pages.get(name)
            if not page or slug(heading) not in page.anchors:
                wrong.append(f'include/cohort/{header.name}.h: {name} has no heading "{heading}"')
    return wrong


def names_of_project():
    names = set()
    sources = ["src/base/environment.c"]
    sources += [f"include/cohort/{name}" for name in sorted(os.listdir("include/cohort"))]
    for source in sources:
        with open(source, encoding="utf-8") as file:
            names.update(re.findall(r"\b(?:cohort|COHORT)_\w+", file.read()))
    return names


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    pages = {name: Page(name) for name in sys.argv[1:] or files_of_project()}
    names = names_of_project()
    wrong = [] if sys.argv[1:] else faults(read_headers()) + check_references(pages)
    for page in list(pages.values()):
        page.check_tables()
        page.check_links(pages)
        page.check_length()
        page.check_names(names)
        if page.name == "README.md" and len(page.lines) - 1 > README_LINES:
            page.complain(README_LINES, f"{len(page.lines) - 1} lines, the most is "
                          f"{README_LINES}")
        wrong += page.wrong
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
