#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the headers for programs of the simulator, from src/sim/include.

    scripts/sim_headers.py DIRECTORY

In the tree these headers include lists of functions and constants (X macros) from which the
simulator is built.  The headers in DIRECTORY have the lists expanded: they include nothing of
the project and define none of its macros.  The runtime's functions get their other names for
CUDA_API_PER_THREAD_DEFAULT_STREAM from src/sim/dropin/libcudart.c.
"""

import os
import re
import sys
import textwrap

SOURCES = "src/sim/include"
# A macro definition with its continuation lines, and the comment before it.
DEFINITION = re.compile(
    r"(?:/\*(?:(?!\*/)[\s\S])*\*/\n)?^#define (\w+)\(([\w, .]*)\)((?:.*\\\n)*.*\n)", re.M)


def read(path):
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def inlined(path, seen):
    """Return a header with the project's includes expanded, without guards."""
    if path in seen:
        return ""
    seen.add(path)
    text = read(path).partition("/* ---- not part of CUDA's")[0]
    text = re.sub(r"^.*SPDX.*\n", "", text)
    text = re.sub(r"^#ifndef \w+\n#define \w+\n", "", text)
    text = re.sub(r"#endif\n*\Z", "", text) if text.count("#if") < text.count("#endif") else text
    if not path.startswith(SOURCES):
        text = re.sub(r"\A\s*/\*(?:(?!\*/)[\s\S])*\*/\n", "", text)
    text = re.sub(r"/\* clang-format o(ff|n) \*/\n|#include <(assert|stdbool)\.h>\n", "", text)
    return re.sub(r'#include "(.*)"\n', lambda m: inlined(f"src/{m[1]}", seen), text)


def split(text):
    """Split the arguments of a call, whose text follows its first parenthesis.

    Also returns the position at which the call ends."""
    parts, depth, begin, i = [], 0, 0, 0
    string = False
    while True:
        char = text[i]
        if char == '"' and text[i - 1] != "\\":
            string = not string
        elif not string and char in "([":
            depth += 1
        elif not string and char in ")]" and depth:
            depth -= 1
        elif not string and char in ",)" and not depth:
            parts.append(" ".join(text[begin:i].split()))
            begin = i + 1
            if char == ")":
                return parts, i + 1
        i += 1


def expanded(text, macros):
    """Expand calls of list macros in a text, recursively."""
    result, rest = "", text
    while True:
        call = re.search(r"\b(\w+)\(", rest)
        while call and call[1] not in macros:
            call = re.compile(r"\b(\w+)\(").search(rest, call.end())
        if not call:
            return result + rest
        arguments, end = split(rest[call.end():])
        names, body = macros[call[1]]
        given = dict(zip(names, arguments))
        body = re.sub(r"\b\w+\b", lambda m, g=given: g.get(m[0], m[0]), body.replace("p##", "p\0"))
        body = re.sub(r"p\0(\w+)", lambda m, g=given: "p" + g.get(m[1], m[1]), body)
        result += rest[:call.start()] + expanded(body, macros)
        rest = rest[call.end() + end:]


def with_signatures(text):
    """Expand FN(X, since, result, name, pairs) and the like (src/platform/signatures.h)."""
    done = ""
    while call := re.search(r"\b(NCCL_|CUDA_|)FN\((?=X,)", text):
        arguments, end = split(text[call.end():])
        result = {"NCCL_": "ncclResult_t", "CUDA_": "cudaError_t"}.get(call[1]) or arguments.pop(2)
        pairs = split(arguments[3][1:])[0]
        parameters = ", ".join(map(" ".join, zip(pairs[::2], pairs[1::2]))).replace("* ", "*")
        done += text[:call.start()] + f"X({arguments[1]}, {result}, {arguments[2]}, " \
            f"({parameters or 'void'}), ())"
        text = text[call.end() + end:]
    return done + text


def tidy(text):
    """Format an expanded call, with one declaration or constant per line."""
    lines = []
    for part in re.split(r"(?<=;)|(?<=,)(?![^(]*\))", " ".join(text.split())):
        part = re.sub(r" = \((-?\d+)\)", r" = \1", part.strip())
        part = re.sub(r" ?(\[[^\]]*\])", r"\1", re.sub(r" ;", ";", part))
        part = re.sub(r"\* (?=\w+\()", "*", re.sub(r"(\w) \(", r"\1(", part))
        # Break lines only at commas.
        part = re.sub(r"(?<!,) ", "\0", part)
        lines += [line.replace("\0", " ") for line in textwrap.wrap(
            part, 92, subsequent_indent="\t\t", break_long_words=False)]
    return lines


def header(name):
    """Return the text of one header for installation."""
    text = inlined(f"{SOURCES}/{name}", {"src/platform/signatures.h"})
    macros = {}

    def keep(match):
        body = with_signatures(re.sub(r"\\\n", "\n", match[3]))
        names = [word.strip() for word in match[2].split(",")]
        of_list = re.search(r"\b(%s)\(" % "|".join(names), body) if names[0] else None
        if of_list or match[1].endswith(("_DECLARE", "_VALUE", "_PROPERTY")):
            macros[match[1]] = (names, body)
            return ""
        return match[0]

    text = DEFINITION.sub(keep, text)
    text = re.sub(r"#undef .*\n", "", text)
    if text.count("#include <stddef.h>\n") > 1:
        text = text.replace("#include <stddef.h>\n", "", 1)
    lines = []
    for line in text.splitlines():
        call = re.search(r"\b(\w+)\(", line)
        if not call or call[1] not in macros or line.startswith(("#", " *")):
            lines.append(line)
            continue
        before, after = line[:call.start()].rstrip(), line[line.rindex(")") + 1:].strip()
        inside = "\t" if before or line.startswith("\t") else ""
        lines += [before] if before.strip() else []
        lines += [inside + told for told in tidy(expanded(line[call.start():line.rindex(")") + 1],
                                                           macros))]
        lines += [after] if after else []
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
    guard = "COHORT_SIMULATOR_" + name.upper().replace(".", "_")
    return f"/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef {guard}\n#define {guard}\n\n" \
        f"{text}\n#endif\n"


def per_thread(text):
    """Return the names of functions that use the thread's default stream."""
    forms = re.findall(r"^#define FORM_(\w+) , (STREAMS?|DRIVER|WAITS)$",
                       read("src/sim/dropin/libcudart.c").partition("#if CUDART == 12")[0], flags=re.M)
    lines = ["#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)"]
    lines += [f"#define {name} {name}_{'ptds' if form == 'WAITS' else 'ptsz'}"
              for name, form in forms if re.search(rf"\b{name}\(", text)]
    return "\n".join(lines + ["#endif", "", ""])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = os.path.abspath(sys.argv[1])
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    os.makedirs(directory, exist_ok=True)
    for name in sorted(os.listdir(SOURCES)):
        text = header(name)
        if name == "cuda_runtime_api.h":
            text = text.replace('#ifdef __cplusplus\nextern "C" {',
                                per_thread(text) + '#ifdef __cplusplus\nextern "C" {', 1)
        with open(os.path.join(directory, name), "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
