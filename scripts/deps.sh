#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Install Criterion, which the unit, api and sim suites need, unless a program that uses Criterion
# can already be compiled.  Needs apt-get, and root or sudo without a password; otherwise prints
# one line that says what to install.  With --check, installs nothing, and exits with 0 if
# Criterion is installed.

set -u

has_criterion() {
	# shellcheck disable=SC2046
	echo '#include <criterion/criterion.h>' |
		${CC:-cc} $(pkg-config --cflags criterion 2>/dev/null) \
			-x c -fsyntax-only - 2>/dev/null
}

give_up() {
	echo "Criterion is missing: install libcriterion-dev (Debian, Ubuntu)" \
		"or criterion from your system's packages, then try again$1" >&2
	exit 1
}

has_criterion && exit 0
[ "${1-}" != --check ] || exit 1

command -v apt-get >/dev/null || give_up ""
as_root=
if [ "$(id -u)" -ne 0 ]; then
	sudo -n true 2>/dev/null || give_up ""
	as_root="sudo -n"
fi

echo "Criterion is missing, installing libcriterion-dev"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{
	$as_root apt-get -q update
	$as_root apt-get -q -y install libcriterion-dev
} >"$log" 2>&1
reason=$(grep '^[EW]:' "$log" | head -n 1)
rm -f "$log"
has_criterion || give_up "${reason:+ ($reason)}"
