# SPDX-License-Identifier: Apache-2.0
"""Build the wheel and the source distribution.

The wheel has the package, libcohort.so, the headers, the command, and the libraries of
`cohort run`.  The source distribution has the files from which the wheel is built.

This is a PEP 517 build backend without dependencies, called by `pip wheel bindings/python`.
It runs make if binaries are missing.  Wheels of the same binaries are bit-identical, and so
are source distributions of the same sources.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from typing import Any, Dict, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
BUILD = os.path.join(ROOT, "build")
# Files and folders of the repository in the source distribution.
SOURCES = ("Makefile", "mk", "include", "src", "LICENSE", "bindings/cohort_abi.json",
           "bindings/python")
# Libraries in build/lib that `cohort run` makes programs load instead of NVIDIA's.
DROP_INS = ["drop-in/libcohort-host.so", "drop-in/libnccl.so.2", "drop-in/libcuda.so.1",
            "drop-in/libcudart.so.12", "drop-in/libcudart.so.13", "drop-in/libnvidia-ml.so.1",
            "watch/libnccl.so.2", "watch/libcohort-audit.so"]
# Those that exist only on x86-64.
X86_64_DROP_INS = ["nvidia/libnccl.so.2", "drop-in/libcohort-static.so"]
DATE = (1980, 1, 1, 0, 0, 0)


def _read(*path: str) -> bytes:
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def _version() -> str:
    version = json.loads(_read(ROOT, "bindings", "cohort_abi.json"))["version"]
    assert isinstance(version, str)
    return version


def _machine(binary: bytes) -> str:
    """Return the architecture of an ELF file."""
    number = int.from_bytes(binary[18:20], "little")
    return {62: "x86_64", 183: "aarch64"}.get(number, os.uname().machine)


def _platform(binaries: List[bytes]) -> str:
    """Return the manylinux tag, for the newest glibc version whose symbols a binary needs."""
    versions = re.findall(rb"GLIBC_2\.(\d+)\0", b"".join(binaries))
    newest = max(int(version) for version in versions)
    return f"manylinux_2_{newest}_{_machine(binaries[0])}"


def _stripped(path: str) -> bytes:
    """Return a binary, without debug symbols if strip for its architecture is installed."""
    machine = _machine(_read(path))
    strip = shutil.which(f"{machine}-linux-gnu-strip")
    if not strip and machine == os.uname().machine:
        strip = shutil.which("strip")
    if not strip:
        return _read(path)
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "stripped")
        subprocess.run([strip, "--strip-unneeded", "-o", out, path], check=True)
        return _read(out)


def _binaries(version: str, build: str) -> Dict[str, bytes]:
    """Return the contents of each binary, by path in the wheel.

    Build missing binaries, if the build folder is that of this tree."""
    name = f"libcohort.so.{version.split('.', maxsplit=1)[0]}"
    data = f"cohort_comm-{version}.data"
    places = {f"lib/{name}": f"cohort/{name}", "portable/cohort": f"{data}/scripts/cohort"}
    library = os.path.join(build, "lib", name)
    machine = _machine(_read(library)) if os.path.exists(library) else os.uname().machine
    drop_ins = DROP_INS + (X86_64_DROP_INS if machine == "x86_64" else [])
    places.update({f"lib/{file}": f"{data}/data/lib/cohort/{file}" for file in drop_ins})
    missing = [f"build/{file}" for file in places
               if not os.path.exists(os.path.join(build, file))]
    if missing and build == BUILD:
        subprocess.run(["make", "-C", ROOT, *missing], check=True)
    return {place: _stripped(os.path.join(build, file)) for file, place in places.items()}


def _metadata(version: str) -> bytes:
    text = _read(HERE, "pyproject.toml").decode()
    about = re.search(r'^description = "(.*)"$', text, re.M)
    wants = re.search(r'^requires-python = "(.*)"$', text, re.M)
    assert about and wants
    return (f"Metadata-Version: 2.1\nName: cohort-comm\nVersion: {version}\n"
            f"Summary: {about[1]}\nLicense: Apache-2.0\n"
            f"Requires-Python: {wants[1]}\n"
            "Description-Content-Type: text/markdown\n\n"
            + _read(HERE, "README.md").decode()).encode()


def _files(version: str, build: str) -> Tuple[str, List[Tuple[str, bytes]]]:
    """Return the wheel's tag, and the path and contents of each file in it."""
    binaries = _binaries(version, build)
    tag = f"py3-none-{_platform(list(binaries.values()))}"
    folder, headers = os.path.join(HERE, "cohort"), os.path.join(ROOT, "include", "cohort")
    files = [(f"cohort/{file}", _read(folder, file)) for file in sorted(os.listdir(folder))
             if file.endswith(".py") or file == "py.typed"]
    files += [(f"cohort/include/cohort/{file}", _read(headers, file))
              for file in sorted(os.listdir(headers))]
    files += binaries.items()
    info = f"cohort_comm-{version}.dist-info"
    # The license of json-c, with which the command is linked.
    linked = os.path.join(build, "portable", "json-c.copyright")
    if os.path.exists(linked):
        files.append((f"{info}/licenses/json-c.copyright", _read(linked)))
    files += [
        (f"{info}/METADATA", _metadata(version)),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: cohort\nRoot-Is-Purelib: false\n"
                          f"Tag: {tag}\n".encode()),
        (f"{info}/entry_points.txt", b"[pytest11]\ncohort = cohort.testing\n\n"
                                    b"[torch.distributed.backends]\n"
                                    b"cohort = cohort.torch:register\n"),
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
    """Write the wheel to wheel_directory and return its name.

    config_settings may name another build folder as "build"."""
    del metadata_directory
    version = _version()
    tag, files = _files(version, (config_settings or {}).get("build", BUILD))
    name = f"cohort_comm-{version}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w",
                         zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files:
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_binary = ".so" in path or "/scripts/" in path
            entry.external_attr = (0o100755 if is_binary else 0o100644) << 16
            wheel.writestr(entry, data)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Write the source distribution to sdist_directory and return its name."""
    del config_settings
    version = _version()
    top = f"cohort_comm-{version}"
    project = _read(HERE, "pyproject.toml").decode()
    # In the distribution, pyproject.toml is at the top; all other files keep their paths.
    for here, there in (('backend-path = ["."]', 'backend-path = ["bindings/python"]'),
                        ('readme = "README.md"', 'readme = "bindings/python/README.md"')):
        assert here in project
        project = project.replace(here, there)
    made = {"PKG-INFO": _metadata(version), "pyproject.toml": project.encode()}
    paths = sorted(path for source in SOURCES for path in _tree(source))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in [*made, *paths]:
            full = os.path.join(ROOT, path)
            data = made[path] if path in made else _read(full)
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size = len(data)
            entry.mode = 0o755 if path in paths and os.access(full, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    with open(os.path.join(sdist_directory, f"{top}.tar.gz"), "wb") as file:
        file.write(gzip.compress(packed.getvalue(), mtime=0))
    return f"{top}.tar.gz"


def _tree(path: str) -> List[str]:
    """Return the files below a path of the repository, or the path if it is a file."""
    full = os.path.join(ROOT, path)
    if not os.path.isdir(full):
        return [path]
    return [file for name in os.listdir(full) if name not in ("__pycache__", "tests")
            for file in _tree(f"{path}/{name}")]
