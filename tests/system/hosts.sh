#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Test groups on several hosts with their own networks, which cohort launch starts on
# NVIDIA's NCCL: what their processes learn if ranks do not call, a process or the agent of
# one is killed, a host is cut off, or the link to a host is slow.  The hosts are network
# namespaces of this machine, on a bridge.
#
# usage: hosts.sh COHORT LIB   exit status 0 passed, 1 failed, 77 skipped

set -eu

usage='usage: hosts.sh COHORT LIB'
cohort=${1:?$usage}
lib=${2:?$usage}

leaves_out() {
	echo "[SKIP] hosts: $1"
	exit 77
}

# Run this script in its own network and mount namespaces, with its own directory of networks.
if [ -z "${HOSTS_INSIDE-}" ]; then
	command -v ip >/dev/null || leaves_out 'ip is not installed (Debian: iproute2)'
	unshare --net --mount --uts --pid --fork true 2>/dev/null ||
		leaves_out 'this user cannot create namespaces'
	"$cohort" run --nccl auto -- "$cohort" launch -n 1 true >/dev/null 2>&1 ||
		leaves_out "NVIDIA's NCCL or libpmix.so.2 is not installed"
	HOSTS_INSIDE=1 exec unshare --net --mount --pid --fork --kill-child --mount-proc \
		"$0" "$@"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mount -t tmpfs none /run
# NCCL leaves files here when a process is killed.
mount -t tmpfs none /dev/shm

fail() {
	echo "hosts.sh: $*"
	cat "$dir/out" "$dir/err"
	exit 1
}

ip link set lo up
# Give the bridge its own address.  Otherwise it has that of some host's link, and gets
# another one when that link is replaced, which the hosts notice only after a minute.
ip link add bridge address 02:00:00:00:00:01 type bridge 2>/dev/null ||
	leaves_out 'the kernel has no bridges'
ip address add 10.77.0.1/24 dev bridge
ip link set bridge up
n=1
for host in east west; do
	n=$((n + 1))
	ip netns add $host
	ip link add $host type veth peer name eth0 netns $host
	ip link set $host master bridge up
	ip -n $host address add 10.77.0.$n/24 dev eth0
	ip -n $host link set eth0 up
	ip -n $host link set lo up
done

cat >"$scratch/agent" <<'END'
#!/bin/sh
exec ip netns exec "$1" unshare --uts --pid --fork --kill-child --mount-proc \
	sh -c 'hostname "$1" && exec sh -c "$2"' sh "$1" "$2"
END
chmod +x "$scratch/agent"
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude \
	-o "$scratch/far" tests/system/far.c -L"$lib" -lcohort
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -pthread \
	-o "$scratch/relay" tests/system/relay.c
export LD_LIBRARY_PATH=$lib NCCL_SOCKET_IFNAME=eth0

processes=4
delay=0 # delay of a frame to or from the second host, in ms

# far STATUS MODE N TEXT [COMMAND]... - run far, and COMMAND at the same time; fail unless N
# processes report TEXT
far() {
	local want=$1 mode=$2 n=$3 text=$4 dir=$scratch/$2-$delay got=0 launcher times least
	shift 4
	mkdir "$dir"
	timeout -k 5 240 "$cohort" launch -n $processes --hosts east,west --agent "$scratch/agent" \
		--interface bridge -- "$cohort" run -n 8 --nccl auto -- "$scratch/far" \
		"$mode" "$dir/time" </dev/null >"$dir/out" 2>"$dir/err" &
	launcher=$!
	[ $# -eq 0 ] || "$@" "$dir/time"
	wait $launcher || got=$?
	[ "$got" -eq "$want" ] || fail "$mode: exit status $got, not $want"
	[ "$(grep -cF -e "$text" "$dir/out")" -eq "$n" ] || fail "$mode: not $n times '$text'"
	times=$(sed -n 's/^process .*: .*, after \([0-9]*\) ms: .*/\1/p' "$dir/out" | sort -n)
	least=${times%%$'\n'*}
	echo "$mode, delay $delay ms: after $least to ${times##*$'\n'} ms"
	[ "$least" -ge "$delay" ] || fail "$mode: too early"
}

# await COMMAND... - repeat COMMAND until it succeeds
await() {
	local until=$((SECONDS + 60))
	until "$@"; do
		[ $SECONDS -lt $until ] || fail "for 60 s not: $*"
		sleep 0.01
	done
}
kill_agent() {
	await test -s "$1"
	# Kill the second of this host's agents, in order of process ids.
	pgrep -f '^unshare .* sh east ' | sort -n | sed -n 2p | xargs kill -KILL
}
cut_off() {
	await test -s "$1"
	ip link set west down
	touch "$1.cut"
}

# Run the relay with priority, because waiting for a core would make the link slower.
has_relay() {
	: <>/dev/net/tun && chrt --fifo 1 true
}

# slow_down MS - give the second host a link with this delay
slow_down() {
	delay=$1
	ip link delete west
	chrt --fifo 1 "$scratch/relay" "$delay" west slow
	ip link set west master bridge up
	ip link set slow netns west name eth0
	ip -n west address add 10.77.0.3/24 dev eth0
	ip -n west link set eth0 up
}

far 0 abort 4 ': aborted, after '
far 0 stall 4 ': a collective missed its deadline, after '
far 0 exit 3 ': 6 ranks go on, after '
far 137 twice 2 ': 4 ranks go on, after '
far 137 agent 3 ': 6 ranks go on, after ' kill_agent
far 0 link 4 ': a collective missed its deadline, after ' cut_off

if ! has_relay 2>/dev/null; then
	echo '[SKIP] a slow link: no /dev/net/tun, or no real-time priority'
	exit 0
fi
slow_down 100
processes=2
far 0 none 2 ': success, after ' &
jobs=($!)
far 0 stall 2 ': a collective missed its deadline, after ' &
jobs+=($!)
far 137 kill 1 ': 2 ranks go on, after ' &
jobs+=($!)
for job in "${jobs[@]}"; do
	wait "$job"
done
