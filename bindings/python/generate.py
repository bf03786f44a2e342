#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate cohort/_abi.py (enumerations, structures, functions) from cohort_abi.json.

usage: generate.py [--check]

Without --check, writes the file.  With --check, compares it, prints lines that differ and
exits with 1 if there are any; writes nothing.  In both cases, checks that ctypes lays out
the structures with the sizes and offsets that the compiler uses.
"""

import ctypes
import difflib
import json
import os
import re
import sys
import textwrap
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "cohort_abi.json")
TARGET = os.path.join(HERE, "cohort", "_abi.py")

HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""The C API, made from cohort_abi.json by generate.py: do not edit."""

import ctypes
import enum
from typing import Any, Dict, List, Tuple

'''

# ctypes names of C types.  Strings are passed as bytes; memory and opaque handles are
# passed as addresses.
PLAIN = {
    "int": "ctypes.c_int", "unsigned int": "ctypes.c_uint", "double": "ctypes.c_double",
    "char": "ctypes.c_char", "unsigned char": "ctypes.c_ubyte",
    "size_t": "ctypes.c_size_t", "int64_t": "ctypes.c_int64",
    "uint64_t": "ctypes.c_uint64", "void": "None",
    "void *": "ctypes.c_void_p", "char *": "ctypes.c_char_p",
}


def camel(name: str) -> str:
    """Convert cohort_verdict_kind to VerdictKind."""
    return "".join(part.capitalize() for part in name.split("_")[1:])


def spelled(kind: str, opaque: "set[str]", callbacks: "set[str]") -> str:
    """Return the ctypes expression for a C type."""
    kind = re.sub(r"\bconst\b", " ", kind)
    kind = re.sub(r"\s+", " ", kind).strip()
    kind = re.sub(r" ?\*", " *", kind)
    array = re.fullmatch(r"(.*)\[(\d+)\]", kind)
    if array:
        return f"{spelled(array[1], opaque, callbacks)} * {array[2]}"
    if kind in PLAIN:
        return PLAIN[kind]
    if kind in callbacks:
        return kind
    struct = re.fullmatch(r"struct (\w+)( \*)?", kind)
    if struct and struct[1] in opaque:
        return "ctypes.c_void_p"
    if struct:
        return f"ctypes.POINTER({struct[1]})" if struct[2] else struct[1]
    if kind.endswith(" *"):
        return f"ctypes.POINTER({spelled(kind[:-2], opaque, callbacks)})"
    raise ValueError(f"generate.py does not know the type {kind!r}")


def text_of(abi: "dict[str, Any]") -> str:
    """Return the text of _abi.py."""
    opaque = {struct["name"] for struct in abi["structs"] if struct.get("opaque")}
    callbacks = {callback["name"].replace(".", "_") for callback in abi["callbacks"]}

    def kind(text: str) -> str:
        return spelled(text, opaque, callbacks)

    out = [HEAD, f'VERSION = "{abi["version"]}"\n']
    out += [f'{constant["name"][7:]} = {constant["value"]}\n'
            for constant in abi["constants"]]
    for enumeration in abi["enums"]:
        names = [value["name"] for value in enumeration["values"]]
        prefix = re.match(r"COHORT_(?:.*_)?", os.path.commonprefix(names))
        assert prefix, names
        out.append(f'\n\nclass {camel(enumeration["name"])}(enum.IntEnum):\n'
                   f'    """enum {enumeration["name"]} of {enumeration["header"]}"""\n\n')
        out += [f'    {value["name"][prefix.end():]} = {value["value"]}\n'
                for value in enumeration["values"]]
    # A definition must come after the definitions that it uses.
    waiting = {}
    for callback in abi["callbacks"]:
        name = callback["name"].replace(".", "_")
        types = [kind(callback["result"])]
        types += [kind(argument["type"]) for argument in callback["arguments"]]
        lines = "\n    ".join(textwrap.wrap(", ".join(types), 88))
        waiting[name] = f"\n\n{name} = ctypes.CFUNCTYPE(\n    {lines})\n"
    for struct in abi["structs"]:
        if struct["name"] in opaque:
            continue
        fields = []
        for field in struct["fields"]:
            here = f'{struct["name"]}_{field["name"]}'
            what = here if here in callbacks else kind(field["type"])
            fields.append(f'        ("{field["name"]}", {what}),\n')
        waiting[struct["name"]] = (
            f'\n\nclass {struct["name"]}(ctypes.Structure):\n'
            f'    """struct {struct["name"]} of {struct["header"]}"""\n\n'
            f'    _fields_ = [\n{"".join(fields)}    ]\n')
    while waiting:
        ready = [name for name, text in waiting.items()
                 if not any(re.search(rf"\b{other}\b(?! of)", re.sub(r'""".*"""', "", text))
                            for other in waiting if other != name)]
        out += [waiting.pop(name) for name in ready]
    out.append("\n\n# Result and arguments of each function.\n"
               "FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {\n")
    for function in abi["functions"]:
        types = [kind(argument["type"]) for argument in function["arguments"]]
        out.append(f'    "{function["name"]}": ({kind(function["result"])}, ['
                   + "".join(f"\n        {line}" for line in textwrap.wrap(
                       ", ".join(types), 88)) + "]),\n")
    out.append("}\n")
    return "".join(out)


def check_layout(text: str, abi: "dict[str, Any]") -> None:
    """Exit with an error if ctypes lays out a structure differently from the compiler."""
    made: "dict[str, Any]" = {"__name__": "cohort._abi"}
    exec(compile(text, TARGET, "exec"), made)  # pylint: disable=exec-used
    for struct in abi["structs"]:
        if struct.get("opaque"):
            continue
        here = made[struct["name"]]
        got = [(name, getattr(here, name).offset, getattr(here, name).size)
               for name, *_ in here._fields_]
        want = [(field["name"], field["offset"], field["size"])
                for field in struct["fields"]]
        if got != want or ctypes.sizeof(here) != struct["size"]:
            sys.exit(f"generate.py: struct {struct['name']}: ctypes has {got}, "
                     f"the compiler {want}")


def main(arguments: "list[str]") -> int:
    """Write the file, or compare it with --check."""
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    with open(SOURCE, encoding="utf-8") as file:
        abi = json.load(file)
    text = text_of(abi)
    check_layout(text, abi)
    if not arguments:
        with open(TARGET, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(TARGET, encoding="utf-8") as file:
        there = file.read()
    sys.stdout.writelines(difflib.unified_diff(
        there.splitlines(True), text.splitlines(True), TARGET, SOURCE, n=0))
    return int(there != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
