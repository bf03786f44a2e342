#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What README.md says first, on a machine that has gcc, make and git and nothing else:
# a clone of the last commit, make demo, make test, and no file that git does not know.
#
#	scripts/bare.sh SUITE
#
# That machine is a root of Debian SUITE that debootstrap makes, in a temporary folder.
# Its packages come from DEBIAN_MIRROR, else from where this machine has its own of
# Debian, else from debootstrap's default.  Without debootstrap, root or a mirror it
# fails, as then nothing is proved.  The last line is that of make test.

set -euo pipefail

suite=${1:?usage: bare.sh SUITE}
cd "$(dirname "$0")/.."

# fail WHY
fail() {
	echo "no root of Debian $suite: $*"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

[ "$(id -u)" -eq 0 ] || fail "a root is made by root only"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' INT TERM

# apart COMMAND... - what it mounts and starts goes with it
apart() {
	unshare --mount --pid --fork --kill-child --mount-proc "$@"
}
apart true 2>"$root/log" || fail "no mounts of our own: $(tail -n 1 "$root/log")"

# shellcheck disable=SC2016 # apt's
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
	'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1 || true)}
begin=$SECONDS
# shellcheck disable=SC2086 # none, if there is none
apart debootstrap --variant=minbase --include=gcc,libc6-dev,make,git \
	"$suite" "$root/root" $mirror >"$root/log" 2>&1 ||
	fail "debootstrap: $(tail -n 1 "$root/log")"
echo "Debian $suite after $((SECONDS - begin)) s"

# What this machine's apt needs to reach anything, without what it runs.
apt-config dump | grep -E '^Acquire::(http|https|Check-|Force|Retries)' |
	grep -v Auto-Detect >"$root/root/etc/apt/apt.conf.d/90host" || true
certificates=/etc/ssl/certs/ca-certificates.crt
if [[ $mirror == https:* ]] && [ -e $certificates ]; then
	install -D -m 644 $certificates "$root/root$certificates"
fi
git clone -q "file://$PWD" "$root/root/cohort"

settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
	MAKEFLAGS="-j$(nproc)")
for name in http_proxy https_proxy no_proxy; do
	[ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
# shellcheck disable=SC2016 # for the inner shells
apart sh -ec 'mount -t proc proc "$1/proc"
	mount -t tmpfs tmpfs "$1/dev/shm"
	root=$1
	shift
	exec chroot "$root" env -i "$@"' sh "$root/root" "${settings[@]}" \
	bash -o pipefail -c 'cd cohort
		rc=0
		make demo || rc=1
		make test 2>&1 | tee ../log || rc=1
		left=$(git status --porcelain)
		if [ -n "$left" ]; then
			echo "git status: $left"
			rc=1
		fi
		grep " passed, .* skipped$" ../log | tail -n 1
		exit $rc'
