#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate the declarations of the Rust crate cohort-sys from bindings/cohort_abi.json.

usage: generate.py [--check]

Writes bindings/rust/cohort-sys/src/generated.rs.  With --check, writes nothing and fails
if the file is out of date.
"""

import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ABI = "bindings/cohort_abi.json"
OUTPUT = "bindings/rust/cohort-sys/src/generated.rs"

PLAIN = {
    "void": "c_void", "char": "c_char", "unsigned char": "c_uchar", "int": "c_int",
    "unsigned int": "c_uint", "unsigned": "c_uint", "size_t": "usize", "double": "f64",
    "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64",
}
KEYWORDS = {"type", "in", "fn", "ref", "match", "move", "self", "use", "where", "loop"}


def name(text):
    return "r#" + text if text in KEYWORDS else text


def type_of(c):
    """Return the Rust type of a C type that is not a function pointer."""
    array = re.fullmatch(r"(.*?) ?\[(\d+)\]", c)
    if array:
        return f"[{type_of(array[1])}; {array[2]}]"
    base, *levels = re.split(r"\*", c)
    is_const = "const" in base.split()
    base = " ".join(word for word in base.split() if word not in ("const", "struct", "enum"))
    if base.endswith("_fn") or base.startswith("cohort_"):
        rust = base
    elif base in PLAIN:
        rust = PLAIN[base]
    else:
        sys.exit(f"{ABI}: type '{c}' has no Rust type in PLAIN; add one")
    # In C, "T *const *" is a pointer to constant pointers to T.
    for level in levels:
        rust = ("*const " if is_const else "*mut ") + rust
        is_const = "const" in level.split()
    return rust


def arguments(of):
    if not of:
        return ""
    return ", ".join(f"{name(a['name'])}: {type_of(a['type'])}" for a in of)


def result(c):
    return "" if c == "void" else f" -> {type_of(c)}"


def constants(abi, out):
    for c in abi["constants"]:
        kind = "c_int" if -2**31 <= c["value"] < 2**31 else "u64"
        out.append(f"/// `{c['header']}`\npub const {c['name']}: {kind} = {c['value']};")
    for e in abi["enums"]:
        for v in e["values"]:
            out.append(f"/// `enum {e['name']}`, `{e['header']}`\n"
                       f"pub const {v['name']}: c_int = {v['value']};")


def callback(c):
    return f"Option<unsafe extern \"C\" fn({arguments(c['arguments'])}){result(c['result'])}>"


def structs(abi, out, sizes, offsets):
    within = {c["name"]: c for c in abi["callbacks"] if "." in c["name"]}
    for s in abi["structs"]:
        about = f"/// `struct {s['name']}`, `{s['header']}`\n#[repr(C)]\n"
        if s.get("opaque"):
            out.append(about + "#[derive(Debug)]\n"
                       f"pub struct {s['name']} {{\n    _opaque: [u8; 0],\n"
                       "    _is_neither_send_nor_sync: PhantomData<*mut u8>,\n}")
            continue
        fields = []
        for f in s["fields"]:
            inner = within.get(f"{s['name']}.{f['name']}")
            rust = callback(inner) if inner else type_of(f["type"])
            fields.append(f"    pub {name(f['name'])}: {rust},")
            offsets.append(f"        offset!({s['name']}, {name(f['name'])}, {f['offset']});")
        out.append(about + f"#[derive(Clone, Copy, Debug)]\npub struct {s['name']} {{\n"
                   + "\n".join(fields) + "\n}")
        sizes.append(f"        size!({s['name']});")
        out.append(f"const _: () = assert!(size_of::<{s['name']}>() == {s['size']});\n"
                   f"const _: () = assert!(align_of::<{s['name']}>() == {s['align']});")


def functions(abi, out):
    lines = []
    for f in abi["functions"]:
        lines.append(f"    /// `{f['header']}`\n"
                     f"    pub fn {f['name']}({arguments(f['arguments'])})"
                     f"{result(f['result'])};")
    out.append('extern "C" {\n' + "\n".join(lines) + "\n}")


TEST = """#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! offset {
        ($type:ident, $field:ident, $offset:expr) => {{
            let value = std::mem::MaybeUninit::<$type>::uninit();
            let base = value.as_ptr();
            // SAFETY: `base` points to memory of the struct; this creates no reference and
            // reads nothing.
            let field = unsafe { std::ptr::addr_of!((*base).$field) };
            assert_eq!(field as usize - base as usize, $offset, stringify!($type.$field));
        }};
    }

    macro_rules! size {
        ($type:ident) => {
            let name = concat!(stringify!($type), "\\0");
            // SAFETY: `name` is terminated by NUL.
            let size = unsafe { cohort_struct_size(name.as_ptr().cast()) };
            assert_eq!(size, size_of::<$type>(), "{name}");
        };
    }

    #[test]
    fn struct_sizes_match_the_library() {
%s
    }

    #[test]
    fn field_offsets_match_c() {
%s
    }
}"""


def made():
    with open(os.path.join(ROOT, ABI), encoding="utf-8") as file:
        abi = json.load(file)
    sizes, offsets = [], []
    out = ["// SPDX-License-Identifier: Apache-2.0\n"
           "// Generated by bindings/rust/generate.py from bindings/cohort_abi.json.  Do not edit.",
           "use std::marker::PhantomData;\nuse std::mem::{align_of, size_of};\n"
           "use std::os::raw::{c_char, c_int, c_uchar, c_uint, c_void};"]
    out.append("/// Version of the headers from which these declarations were generated.\n"
               f"pub const VERSION: &str = \"{abi['version']}\";")
    constants(abi, out)
    for c in abi["callbacks"]:
        if "." not in c["name"]:
            out.append(f"/// `{c['header']}`\npub type {c['name']} = {callback(c)};")
    structs(abi, out, sizes, offsets)
    functions(abi, out)
    out.append(TEST % ("\n".join(sizes), "\n".join(offsets)))
    return "\n\n".join(out) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: generate.py [--check]")
    path = os.path.join(ROOT, OUTPUT)
    text = made()
    if sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            if file.read() != text:
                sys.exit(f"{OUTPUT} is out of date with {ABI}: run bindings/rust/generate.py")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


main()
