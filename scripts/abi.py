#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Describe the C API as data for bindings: bindings/cohort_abi.json, made from the headers.

usage: abi.py [--check] [FILE]

Writes FILE (default bindings/cohort_abi.json).  With --check, compares FILE with the headers
and changes nothing: exit status 0 if they agree, 1 with the lines that differ, 77 if clang is
not installed.

clang (or $CLANG) provides names and types; a program compiled by CC provides values, sizes
and offsets, which are those of 64-bit Linux.

The file has an object with "version" and five lists, each in the order of the headers:

  constants  macros with an integer value: name, header, value
  enums      name, header, values (name, value)
  structs    name, header; opaque, or size, align, and fields (name, type, offset, size)
  callbacks  pointers to functions: name of the type, or STRUCT.FIELD; header, result,
             arguments (name, type)
  functions  name, header, result, arguments (name, type)
"""

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

INCLUDE = "include"
EVERYTHING = "#include <cohort/cohort.h>\n#include <cohort/reducer.h>\n#include <cohort/sim.h>\n"
CLANG = shlex.split(os.environ.get("CLANG") or "clang")
CC = shlex.split(os.environ.get("CC") or "cc")


def output_of(command, text):
    """Return the output of a command that gets text as input."""
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True,
                          encoding="utf-8").stdout


def header_of(path):
    """Return the name of a header of this project, or None for the path of another file."""
    return os.path.basename(path) if f"{INCLUDE}/cohort/" in path else None


def declarations():
    """Yield each top-level declaration of this project's headers, with its header."""
    tree = json.loads(output_of(
        CLANG + ["-std=gnu11", f"-I{INCLUDE}", "-fsyntax-only", "-Xclang",
                 "-ast-dump=json", "-x", "c", "-"], EVERYTHING))
    path = ""

    def follow(node):
        """Track the current file, which clang's output names only when it changes."""
        nonlocal path
        if isinstance(node, dict):
            path = node.get("file", path)
            for key, value in node.items():
                if key != "includedFrom":
                    follow(value)
        elif isinstance(node, list):
            for value in node:
                follow(value)

    for node in tree["inner"]:
        follow(node.get("loc"))
        here = header_of(path)
        follow({key: value for key, value in node.items() if key != "loc"})
        if here:
            yield here, node


def split_function(spelling, text, name):
    """Return result and arguments of a pointer to a function, "int (*)(int, void *)".

    The names of arguments are taken from the headers' text, because they are not in the type.
    """
    result, types = re.fullmatch(r"(.*\S)\s*\(\*\)\((.*)\)", spelling).groups()
    types = [] if types == "void" else types.split(", ")
    names = re.search(r"\(\*%s\)\(([^)]*)\)" % re.escape(name), text)[1]
    names = [re.search(r"(\w+)\W*$", part)[1] for part in names.split(",")]
    return {"result": result, "arguments": [
        {"name": word, "type": kind} for word, kind in zip(names, types)]}


def facts(here, node, text, found):
    """Add the types or the function of one declaration to the lists."""
    kind, name = node["kind"], node.get("name", "")
    inner = node.get("inner", [])
    if kind == "EnumDecl":
        found["enums"].append({"name": name, "header": here, "values": [
            {"name": value["name"]} for value in inner
            if value["kind"] == "EnumConstantDecl"]})
    elif kind == "RecordDecl" and node.get("completeDefinition"):
        fields = [{"name": field["name"], "type": field["type"]["qualType"]}
                  for field in inner if field["kind"] == "FieldDecl"]
        found["structs"].append({"name": name, "header": here, "fields": fields})
        for field in fields:
            if "(*)" in field["type"]:
                found["callbacks"].append(
                    {"name": f"{name}.{field['name']}", "header": here,
                     **split_function(field["type"], text, field["name"])})
    elif kind == "RecordDecl":
        found["declared"].setdefault(name, here)
    elif kind == "TypedefDecl" and "(*)" in node["type"]["qualType"]:
        found["callbacks"].append({"name": name, "header": here, **split_function(
            node["type"]["qualType"], text, name)})
    elif kind == "FunctionDecl":
        found["functions"].append({
            "name": name, "header": here,
            "result": node["type"]["qualType"].split("(")[0].strip(),
            "arguments": [{"name": part["name"], "type": part["type"]["qualType"]}
                          for part in inner if part["kind"] == "ParmVarDecl"]})


def macros(texts):
    """Return the macros with an integer value, as pairs of name and header."""
    names = [(name, here) for here, text in texts.items() for name in
             re.findall(r"^#define (COHORT_\w+) +\S", text, re.M)]
    lines = output_of(CC + [f"-I{INCLUDE}", "-E", "-P", "-x", "c", "-"],
                      EVERYTHING + "".join(f"\n@{name}\n" for name, _ in names))
    values = re.findall(r"^@\s*(.*)$", lines, re.M)
    return [pair for pair, value in zip(names, values)
            if re.fullmatch(r"(?:[-+*/%()<>|&~ ]|0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)+",
                            value)]


def measure(found):
    """Fill in values, sizes and offsets, as computed by the compiler."""
    places, lines = [], []

    def ask(place, key, expression):
        places.append((place, key))
        lines.append(f"\tSHOW({expression});")

    for constant in found["constants"]:
        ask(constant, "value", constant["name"])
    for enum in found["enums"]:
        for value in enum["values"]:
            ask(value, "value", value["name"])
    for struct in found["structs"]:
        if struct.get("opaque"):
            continue
        name = f"struct {struct['name']}"
        ask(struct, "size", f"sizeof({name})")
        ask(struct, "align", f"_Alignof({name})")
        for field in struct["fields"]:
            ask(field, "offset", f"offsetof({name}, {field['name']})")
            ask(field, "size", f"sizeof((({name} *)0)->{field['name']})")
    program = (EVERYTHING + "#include <stdio.h>\n"
               "#define SHOW(x) printf((x) < 0 ? \"%lld\\n\" : \"%llu\\n\", "
               "(unsigned long long)(x))\n"
               "int main(void)\n{\n" + "\n".join(lines) + "\n\treturn 0;\n}\n")
    with tempfile.TemporaryDirectory() as scratch:
        binary = os.path.join(scratch, "measure")
        output_of(CC + ["-w", f"-I{INCLUDE}", "-x", "c", "-o", binary, "-"], program)
        for (place, key), value in zip(places, output_of([binary], "").split()):
            place[key] = int(value)


def abi():
    """Return the complete description."""
    texts = {}
    for name in sorted(os.listdir(f"{INCLUDE}/cohort")):
        if name.endswith(".h"):
            with open(f"{INCLUDE}/cohort/{name}", encoding="utf-8") as file:
                texts[name] = file.read()
    found = {"enums": [], "structs": [], "callbacks": [], "functions": [], "declared": {}}
    for here, node in declarations():
        facts(here, node, texts[here], found)
    known = {struct["name"] for struct in found["structs"]}
    found["structs"] += [{"name": name, "header": here, "opaque": True}
                         for name, here in found["declared"].items() if name not in known]
    found["constants"] = [{"name": name, "header": here} for name, here in macros(texts)]
    measure(found)
    version = {constant["name"]: constant["value"] for constant in found["constants"]}
    parts = (version[f"COHORT_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))
    return {"version": ".".join(map(str, parts)),
            **{key: found[key] for key in
               ("constants", "enums", "structs", "callbacks", "functions")}}


def written(description):
    """Return the file's text, with one line for each name."""
    def lines(value, depth):
        if isinstance(value, list) and value and depth < 3:
            return "[\n" + ",\n".join(" " * depth + lines(item, depth + 1)
                                      for item in value) + "\n" + " " * (depth - 1) + "]"
        if isinstance(value, dict) and depth == 2:
            return "{" + ", ".join(
                f"{json.dumps(key)}: {lines(item, 3)}" if not isinstance(item, list) else
                f"{json.dumps(key)}: [" + ("\n" if item else "") + ",\n".join(
                    "   " + json.dumps(part) for part in item) + "]"
                for key, item in value.items()) + "}"
        return json.dumps(value)
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {lines(value, 1)}"
                              for key, value in description.items()) + "\n}\n"


def main(arguments):
    """Write the file, or compare it with --check."""
    check = arguments[:1] == ["--check"]
    path = (arguments[check:] or ["bindings/cohort_abi.json"])[0]
    if len(arguments) > check + 1 or path.startswith("-"):
        sys.exit(__doc__)
    if not shutil.which(CLANG[0]):
        print(f"abi.py: {CLANG[0]} is not installed: skipped")
        return 77 if check else 1
    text = written(abi())
    if not check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        committed = file.read()
    sys.stdout.writelines(difflib.unified_diff(
        committed.splitlines(True), text.splitlines(True), path, "the headers", n=0))
    return int(committed != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
