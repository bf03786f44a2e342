#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Unpack Debian's libraries for AArch64 into a folder, for the cross compiler (--sysroot=FOLDER), for
# Debian's rustc (--sysroot=FOLDER/usr) and for QEMU (-L FOLDER).  FOLDER/python has only the command
# python3, and FOLDER/DEBIAN the symbols of all packages, for dpkg-shlibdeps (-S FOLDER).
#
#	scripts/sysroot.sh FOLDER
#
# Downloads the packages from this machine's mirror.  Needs no root rights and does not change the
# machine, because apt uses separate lists, and no package is configured.  Does nothing if the
# folder is complete.  If it cannot unpack the libraries, prints the reason and exits with 77.

set -euo pipefail

folder=${1:?usage: sysroot.sh FOLDER}
packages=(libc6-dev libstdc++6 libstd-rust-dev libcriterion-dev libjson-c-dev libdw-dev
	libncurses-dev python3)

for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu apt-get:apt dpkg-deb:dpkg; do
	command -v "${tool%:*}" >/dev/null && continue
	echo "${tool%:*} is not installed (Debian: ${tool#*:})"
	exit 77
done

made=$folder/DEBIAN/packages
[ "$(cat "$made" 2>/dev/null)" != "${packages[*]}" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/.apt/lists/partial" "$folder/.apt/archives/partial"
apt=$(realpath "$folder/.apt")
: >"$apt/status"
options=(-q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64
	-o APT::Sandbox::User=root -o APT::Install-Recommends=false
	-o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
	-o Debug::NoLocking=true)
{
	apt-get "${options[@]}" update
	apt-get "${options[@]}" install --download-only "${packages[@]}"
} >"$apt/log" 2>&1 || {
	echo "no packages for arm64: $(grep '^[EW]:' "$apt/log" | head -n 1)"
	exit 77
}
mkdir "$folder/DEBIAN"
for package in "$apt"/archives/*.deb; do
	dpkg-deb -x "$package" "$folder"
	# Ignore errors, because most packages have no library and therefore no symbols.
	dpkg-deb -I "$package" symbols >>"$folder/DEBIAN/symbols" 2>/dev/null || true
done
# If Debian has merged /lib into /usr/lib, no package contains the link.
[ -e "$folder/lib" ] || ln -s usr/lib "$folder/lib"
# Make absolute links relative.  They would lead to this machine's files, so the linker would not
# find the shared libraries, and would link static ones.
find "$folder" -lname '/*' -printf '%p %l\n' | while read -r link target; do
	ln -sfnr "$folder$target" "$link"
done
mkdir "$folder/python"
ln -s ../usr/bin/python3 "$folder/python"
rm -rf "$apt"
echo "${packages[*]}" >"$made"
