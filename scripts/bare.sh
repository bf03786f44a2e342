#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Try README.md's first commands on a machine that has gcc, make and git and nothing
# else: clone the last commit, make demo, make test; git must know all files then.
#
#	scripts/bare.sh SUITE
#
# That machine is a root folder of Debian SUITE, which debootstrap makes in a temporary
# folder.  Its packages come from DEBIAN_MIRROR, or else from this machine's own Debian
# mirror, or else from debootstrap's default.  Without debootstrap, the rights of root
# or a mirror the script fails, because then it proves nothing.  The last line is that
# of make test.

set -euo pipefail

suite=${1:?usage: bare.sh SUITE}
cd "$(dirname "$0")/.."

# fail WHY
fail() {
	echo "no root of Debian $suite: $*"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

[ "$(id -u)" -eq 0 ] || fail "only the user root can make it"
command -v debootstrap >/dev/null || fail "debootstrap is not installed"

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' INT TERM

# apart COMMAND... - run it; its mounts and processes end with it
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

# The settings with which this machine's apt reaches a mirror, without its hooks.
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
