# SPDX-License-Identifier: Apache-2.0
"""Build the wheel: the package with libcohort.so and the simulator that is in it.

`pip wheel bindings/python` calls this (PEP 517), and needs nothing from elsewhere.  If the
library is not built, make builds it.  Two wheels of one library are equal to the bit.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
DATE = (1980, 1, 1, 0, 0, 0)


def _read(*path: str) -> bytes:
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def _platform(library: bytes) -> str:
    """The tag: manylinux with the newest glibc whose symbols the library wants."""
    machine = os.uname().machine
    versions = re.findall(rb"GLIBC_2\.(\d+)\0", library)
    newest = max(int(version) for version in versions)
    return f"manylinux_2_{newest}_{machine}"


def _stripped(path: str) -> bytes:
    """The library, without what only debuggers read, if there is a strip."""
    if not shutil.which("strip"):
        return _read(path)
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
        return _read(out)


def _files(version: str, folder_of_library: Optional[str]) -> Tuple[str, List[Tuple[str, bytes]]]:
    """The tag, and what is in the wheel."""
    name = f"libcohort.so.{version.split('.', maxsplit=1)[0]}"
    built = os.path.join(folder_of_library or os.path.join(ROOT, "build", "lib"), name)
    if not folder_of_library and not os.path.exists(built):
        subprocess.run(["make", "-C", ROOT, f"build/lib/{name}"], check=True)
    library = _stripped(built)
    tag = f"py3-none-{_platform(library)}"
    folder = os.path.join(HERE, "cohort")
    files = [(f"cohort/{file}", _read(folder, file)) for file in sorted(os.listdir(folder))
             if file.endswith(".py") or file == "py.typed"]
    info = f"cohort_comm-{version}.dist-info"
    text = _read(HERE, "pyproject.toml").decode()
    about = re.search(r'^description = "(.*)"$', text, re.M)
    wants = re.search(r'^requires-python = "(.*)"$', text, re.M)
    assert about and wants
    metadata = (f"Metadata-Version: 2.1\nName: cohort-comm\nVersion: {version}\n"
                f"Summary: {about[1]}\nLicense: Apache-2.0\n"
                f"Requires-Python: {wants[1]}\n"
                "Description-Content-Type: text/markdown\n\n"
                + _read(HERE, "README.md").decode())
    files += [
        (f"cohort/{name}", library),
        (f"{info}/METADATA", metadata.encode()),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: cohort\nRoot-Is-Purelib: false\n"
                          f"Tag: {tag}\n".encode()),
        (f"{info}/entry_points.txt", b"[pytest11]\ncohort = cohort.testing\n"),
        (f"{info}/licenses/LICENSE", _read(ROOT, "LICENSE")),
    ]
    lines = []
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
        lines.append(f"{path},sha256={digest.decode()},{len(data)}\n")
    lines.append(f"{info}/RECORD,,\n")
    files.append((f"{info}/RECORD", "".join(lines).encode()))
    return tag, files


def build_wheel(wheel_directory: str, config_settings: Optional[Dict[str, str]] = None,
                metadata_directory: Any = None) -> str:
    """The wheel's name; it is written to wheel_directory.

    config_settings may name the folder of another build as "library"."""
    del metadata_directory
    version = json.loads(_read(ROOT, "bindings", "cohort_abi.json"))["version"]
    tag, files = _files(version, (config_settings or {}).get("library"))
    name = f"cohort_comm-{version}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w",
                         zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files:
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in path else 0o644) << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """There is none: the library's sources are not in this folder."""
    del sdist_directory, config_settings
    raise NotImplementedError("cohort-comm has no source distribution: build the wheel")
