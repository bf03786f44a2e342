#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Create a fresh Debian for another script, in a root directory $root/root, by debootstrap.  The
# other script sources this file, calls make_root and then in_root, and may write to $root/log.
#
# Packages are from DEBIAN_MIRROR if set, otherwise from this machine's own Debian mirror,
# otherwise from debootstrap's default.  make_root fails without debootstrap, root rights or a
# mirror, because the other script could then test nothing.

# fail WHY - print why there is no root, count one failure, and exit
fail() {
	echo "no root of Debian $suite: $*"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
}

# apart COMMAND... - run a command in its own namespaces, so that no mount or process outlives it
apart() {
	unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

# make_root SUITE PACKAGE,... - create a Debian SUITE with only these additional packages
make_root() {
	local mirror begin certificates

	suite=$1
	[ "$(id -u)" -eq 0 ] || fail "only the user root can make it"
	command -v debootstrap >/dev/null || fail "debootstrap is not installed"
	root=$(mktemp -d)
	trap 'rm -rf --one-file-system "$root"' EXIT
	trap 'exit 1' INT TERM
	apart true 2>"$root/log" || fail "no mounts of our own: $(tail -n 1 "$root/log")"

	# shellcheck disable=SC2016 # variables of apt
	mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
		'Created-By: Packages' 'Label: Debian' 2>/dev/null | head -n 1 || true)}
	begin=$SECONDS
	# shellcheck disable=SC2086 # may be empty
	apart debootstrap --variant=minbase --include="$2" \
		"$suite" "$root/root" $mirror >"$root/log" 2>&1 ||
		fail "debootstrap: $(tail -n 1 "$root/log")"
	echo "Debian $suite after $((SECONDS - begin)) s"

	# Copy the settings with which this machine's apt reaches a mirror, without its hooks.
	apt-config dump | grep -E '^Acquire::(http|https|Check-|Force|Retries)' |
		grep -v Auto-Detect >"$root/root/etc/apt/apt.conf.d/90host" || true
	certificates=/etc/ssl/certs/ca-certificates.crt
	if [[ $mirror == https:* ]] && [ -e $certificates ]; then
		install -D -m 644 $certificates "$root/root$certificates"
	fi
}

# in_root COMMAND... - run a command in the root, with /proc, /dev/shm and the network
in_root() {
	local settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
		MAKEFLAGS="-j$(nproc)") name

	for name in http_proxy https_proxy no_proxy TEST_RETRY; do
		[ -z "${!name:-}" ] || settings+=("$name=${!name}")
	done
	# shellcheck disable=SC2016 # variables of the inner shells
	apart sh -ec 'mount -t proc proc "$1/proc"
		mount -t tmpfs tmpfs "$1/dev/shm"
		root=$1
		shift
		exec chroot "$root" env -i "$@"' sh "$root/root" "${settings[@]}" "$@"
}
