#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sources of the documentation site, made from the repository's pages.

    scripts/site.py MANUAL DIRECTORY

MANUAL is where scripts/manual.py has put the manual pages.  Into DIRECTORY go

    index.md              README.md, and the table of contents: that of docs/index.md, the
                          manual of the command, and the API by header
    docs/, bindings/ ...  the other Markdown pages, under their own names
    man/cohort_wait.3.md  each manual page, by mandoc
    source/...            each file of the repository that a page links to

scripts/site.sh runs Sphinx on them.
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LEXERS = {".c": "c", ".h": "c", ".cc": "cpp", ".hpp": "cpp", ".py": "python", ".sh": "bash",
          ".json": "json", ".pml": "c"}
# The head of a page that is not in the table of contents, and that the search does not find.
UNLISTED = "---\norphan: true\nnosearch: true\n---\n\n"
LINK = re.compile(r"\]\(([^()\s]+)\)")


class Site:
    """The pages that the script has written, and the files to which they link."""

    def __init__(self, manual, directory):
        self.manual, self.directory = manual, directory
        self.pages = set(subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "*.md", ":!.github"],
            capture_output=True, text=True, check=True).stdout.split())
        self.sources = set()

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def copy(self, name):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(name, path)

    def place(self, path):
        """Return the site's path for a file of the repository."""
        if path == "README.md":
            return "index.md"
        header = re.fullmatch(r"include/cohort/(\w+)\.h", path)
        if header:
            return f"man/{self.header(header.group(1))}.md"
        if path in self.pages:
            return path
        if path.endswith((".png", ".svg")):
            self.copy(path)
            return path
        self.sources.add(path)
        return f"source/{path}.md"

    @staticmethod
    def header(name):
        """Return the manual page of a header."""
        return "cohort.7" if name == "cohort" else f"cohort-{name}.7"

    def page(self, name):
        """Return a Markdown page with links to the site's paths."""
        with open(name, encoding="utf-8") as file:
            text = file.read()
        out = self.place(name)

        def target(match):
            path, mark, anchor = match.group(1).partition("#")
            if not path or re.match(r"^[a-z]+:", path):
                return match.group(0)
            path = os.path.normpath(os.path.join(os.path.dirname(name), path))
            if not os.path.exists(path):
                sys.exit(f"{name}: {path}: no such file")
            path = os.path.relpath(self.place(path), os.path.dirname(out) or ".")
            return f"]({path}{mark}{anchor})"

        # Do not change code blocks, which are the odd parts.
        parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
        for i in range(0, len(parts), 2):
            parts[i] = LINK.sub(target, parts[i])
        return out, "".join(parts)

    def write_source(self, path):
        """Write a page that shows a file or lists a folder."""
        if os.path.isdir(path):
            self.write(f"source/{path}.md", f"{UNLISTED}# `{path}`\n\n"
                       + "".join(f"- [{name}]({os.path.basename(path)}/{name}.md)\n"
                                 for name in sorted(os.listdir(path))))
            for name in sorted(os.listdir(path)):
                self.write_source(f"{path}/{name}")
            return
        if path in self.pages:
            up = os.path.relpath(path, os.path.dirname(f"source/{path}"))
            self.write(f"source/{path}.md", f"{UNLISTED}# `{path}`\n\n"
                       f"[This page]({up})\n")
            return
        self.copy(path)
        up = os.path.relpath(path, os.path.dirname(f"source/{path}"))
        lexer = LEXERS.get(os.path.splitext(path)[1], "text")
        self.write(f"source/{path}.md", f"{UNLISTED}# `{path}`\n\n"
                   f"```{{literalinclude}} {up}\n:language: {lexer}\n```\n")

    # ---- the manual ---------------------------------------------------------------

    def manual_names(self, section):
        folder = os.path.join(self.manual, f"man{section}")
        return sorted(f"{folder}/{name}" for name in os.listdir(folder))

    def write_manual(self):
        """Write all manual pages; return the pages for the table of contents: those of the
        command, and those of the headers with their functions."""
        aliases = {}
        files = [file for section in "137" for file in self.manual_names(section)]
        for file in files:
            aliases[os.path.basename(file)] = os.path.basename(os.path.realpath(file))
        functions = {}
        for file in files:
            name = os.path.basename(file)
            if aliases[name] != name:
                continue
            with open(file, encoding="utf-8") as page:
                header = re.search(r"^\.In cohort/(\w+)\.h", page.read(), re.M)
            if name.endswith(".3"):
                functions.setdefault(header.group(1), []).append(name)
        for file in files:
            name = os.path.basename(file)
            if aliases[name] == name:
                self.write_manual_page(file, aliases, functions)
        with open("include/cohort/cohort.h", encoding="utf-8") as file:
            order = re.findall(r"^ \*  (\w+)\.h  ", file.read(), re.M)
        headers = [name for name in (f"cohort-{name}.7" for name in order) if name in aliases]
        headers += [name for name in sorted(aliases)
                    if name.endswith(".7") and name not in headers + ["cohort.7"]]
        commands = [name for name in aliases if name.endswith(".1")]
        return commands, ["cohort.7"] + headers

    def write_manual_page(self, file, aliases, functions):
        name = os.path.basename(file)
        html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", file],
                              capture_output=True, text=True, check=True).stdout

        def link(match):
            target = aliases.get(match.group(1))
            return f'<a class="Xr" href="{target}.html">' if target else "<a>"

        html = re.sub(r'<a class="Xr" href="([^"]*)\.html">', link, html)
        html = re.sub(
            r'<a class="In">(cohort/(\w+)\.h)</a>',
            lambda match: f'<a href="{self.header(match.group(2))}.html">{match.group(1)}</a>', html)
        html = re.sub(r'<a class="permalink"[^>]*>(.*?)</a>', r"\1", html, flags=re.S)
        stem, section = name.rsplit(".", 1)
        text = f"# {stem}({section})\n"
        for head, body in re.findall(
                r'<section class="Sh">\n<h1 class="Sh"[^>]*>(.*?)</h1>\n(.*?)</section>\n'
                r'(?=<section class="Sh">|</div>)', html, re.S):
            title = " ".join(head.split()).capitalize()
            text += f"\n## {title}\n\n```{{raw}} html\n<div class=\"manual\">\n{body}</div>\n```\n"
        children = functions.get(stem.removeprefix("cohort-"), []) if section == "7" else []
        text += self.toctree(None, children)
        self.write(f"man/{name}.md", text)

    # ---- the table of contents ------------------------------------------------------

    @staticmethod
    def toctree(caption, entries):
        if not entries:
            return ""
        head = f":caption: {caption}\n" if caption else ""
        return "\n```{toctree}\n:hidden:\n" + head + "\n" + "\n".join(entries) + "\n```\n"

    def contents(self, commands, headers):
        with open("docs/index.md", encoding="utf-8") as file:
            parts = re.split(r"^## (.*)$", file.read(), flags=re.M)
        text = "\n```{toctree}\n:hidden:\n\nAll pages <docs/index>\n```\n"
        for caption, part in zip(parts[1::2], parts[2::2]):
            pages = [os.path.normpath(os.path.join("docs", path)).removesuffix(".md")
                     for path in re.findall(r"^- .*?\]\(([^)#]*\.md)\)", part, re.M)]
            pages += [os.path.normpath(os.path.join("docs", path)).removesuffix(".md")
                      for path in re.findall(r"and \[for Rust\]\(([^)]*)\.md\)", part)]
            text += self.toctree(caption, pages)
        text += self.toctree("The command", [f"man/{name}" for name in commands])
        text += self.toctree("The API by header", [f"man/{name}" for name in headers])
        return text + self.toctree("Changes", ["CHANGELOG"])

    def make(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        commands, headers = self.write_manual()
        listed = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] + sorted(
            name for name in self.pages if name.startswith(("docs/", "bindings/")))
        for name in sorted(self.pages - set(listed)):
            out, text = self.page(name)
            self.write(out, "---\norphan: true\n---\n\n" + text)
        for name in listed:
            out, text = self.page(name)
            if name == "README.md":
                text += self.contents(commands, headers)
            self.write(out, text)
        for path in sorted(self.sources):
            self.write_source(path)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    manual, directory = map(os.path.abspath, sys.argv[1:])
    os.chdir(ROOT)
    Site(manual, directory).make()


if __name__ == "__main__":
    main()
