#!/usr/bin/env bash
# hosts.sh MASTER KEYS PROGRAM ARGUMENTS...
#
# Creates three hosts from network and mount namespaces (no root needed where users may create namespaces). Each has an
# address, 10.7.0.1 to 10.7.0.3, a name, node1 to node3, a loopback and a TMPDIR. Packets between them take 2 ms. Runs
# PROGRAM as ranks 0 and 3 on node1, 1 on node2 and 2 on node3, with MASTER_ADDR=MASTER. As on many real hosts,
# /etc/hosts maps a host's own name to 127.0.1.1. KEYS are the key files of ranks 0, 1, 2 and 3, separated by commas; -
# means no key.
# Packets are delayed by the kernel's netem or else by the program HOSTS_BRIDGE, which switches them (lossy_bridge.cpp).
# If neither is available, packets are not delayed and none is lost. A line "network: ..." on the output reports which
# applies.
# With HOSTS_PARTITION=SECONDS, packets take 3 to 7 ms, one in 100 is lost, and a partition begins when PROGRAM creates
# the file `cut` in the folder HOSTS_FOLDER. node2 and the other hosts then cannot reach each other for that time or
# until the file `heal` exists. The files `is_cut` and `has_healed` report it. With HOSTS_CUT="node2 from node3", the
# partition separates only these two from each other; both still reach node1.
# Exit status 77: namespaces cannot be created.
set -u
if [ "${1:-}" != inside ]; then
  unshare -rnm true 2>/dev/null && command -v ip >/dev/null && command -v nsenter >/dev/null || exit 77
  exec unshare -rnm "$BASH" "$0" inside "$@"
fi
shift
source "$(dirname "$0")/../wait_until.sh"
master=$1 keys=$2
shift 2
IFS=, read -ra key <<<"$keys"
# How packets are delayed: netem, bridge (the program) or none.
ip link add probe0 type veth peer name probe1 2>/dev/null || exit 77
by=none
if tc qdisc add dev probe0 root netem delay 1ms 2>/dev/null; then
  by=netem
elif [ -n "${HOSTS_BRIDGE:-}" ] && ip link set probe0 up && ip link set probe1 up; then
  "$HOSTS_BRIDGE" check probe0 probe1 >/dev/null 2>&1 && by=bridge
fi
ip link del probe0
if [ $by != bridge ]; then ip link add bridge0 type bridge 2>/dev/null && ip link set bridge0 up || exit 77; fi

declare -a host
private=$(mktemp -d "${TMPDIR:-/tmp}/tendril_hosts_XXXXXX") || exit 77
export HOSTS_FOLDER=$private.files
mkdir "$HOSTS_FOLDER"
trap 'kill "${host[@]}" $switch 2>/dev/null; rm -rf "$HOSTS_FOLDER"; rmdir "$private"' EXIT
delay=2 jitter=0 loss=0
[ -z "${HOSTS_PARTITION:-}" ] || delay=5 jitter=2 loss=1
echo "network: by $by, $delay ms, plus or minus $jitter, $loss% lost" | sed 's/by none.*/no delay and no loss: neither netem nor packet sockets are available/'
# A process keeps the namespaces of each host alive. It prints a line once they exist and ends with this script.
for n in 1 2 3; do
  # shellcheck disable=SC2016  # the inner shell expands it
  exec {entered}< <(exec unshare -nm bash -c 'echo && exec tail -f --pid="$0" /dev/null >/dev/null' $$ 2>/dev/null)
  host[n]=$!
  read -r -t 10 <&"$entered" || exit 77
  exec {entered}<&-
done
on() { local n=$1; shift; nsenter -t "${host[n]}" -n -m -- "$@"; }
for n in 1 2 3; do
  ip link add "port$n" type veth peer name eth0 netns "${host[n]}" && ip link set "port$n" up || exit 77
  [ $by = bridge ] || ip link set "port$n" master bridge0 || exit 77
  on $n mount -t tmpfs none "$private" || exit 77
  {
    echo "127.0.0.1 localhost"
    for other in 1 2 3; do [ $other = $n ] && echo "127.0.1.1 node$n" || echo "10.7.0.$other node$other"; done
  } | on $n tee "$private/hosts" >/dev/null
  on $n mount --bind "$private/hosts" /etc/hosts || exit 77
  on $n ip link set lo up
  on $n ip addr add "10.7.0.$n/24" dev eth0
  on $n ip link set eth0 up
  [ $by != netem ] || on $n tc qdisc add dev eth0 root netem delay ${delay}ms ${jitter}ms loss $loss% || exit 77
done
switch=
if [ $by = bridge ]; then "$HOSTS_BRIDGE" $delay $jitter $loss port1 port2 port3 & switch=$!; fi
# misroute N OTHER: makes node N send its packets for node OTHER to an Ethernet address that does not exist.
misroute() { on "$1" ip neigh replace "10.7.0.$2" lladdr 02:00:00:00:00:09 dev eth0 nud permanent; }
# cut and join: begin and end the partition of node2 from all others or, with HOSTS_CUT, only from node3.
cut() {
  if [ "${HOSTS_CUT:-}" = "node2 from node3" ]; then misroute 2 3 && misroute 3 2; return; fi
  if [ -n "$switch" ]; then kill -USR1 $switch; else ip link set port2 nomaster; fi
}
join() {
  if [ "${HOSTS_CUT:-}" = "node2 from node3" ]; then on 2 ip neigh del 10.7.0.3 dev eth0 && on 3 ip neigh del 10.7.0.2 dev eth0; return; fi
  if [ -n "$switch" ]; then kill -USR2 $switch; else ip link set port2 master bridge0; fi
}

unset XDG_RUNTIME_DIR TENDRIL_KEY_FILE
declare -a worker
for rank in 0 1 2 3; do
  n=$((rank % 3 + 1))
  [ "${key[rank]}" = - ] && variable=TENDRIL_NO_KEY=1 || variable=TENDRIL_KEY_FILE=${key[rank]}
  on $n env TMPDIR="$private" RANK=$rank WORLD_SIZE=4 MASTER_ADDR="$master" MASTER_PORT=29500 "$variable" "$@" &
  worker[rank]=$!
done
# there_or_over FILE: succeeds if the file exists or all workers have ended.
there_or_over() { [ -e "$HOSTS_FOLDER/$1" ] || ! kill -0 "${worker[@]}" 2>/dev/null; }
if [ -n "${HOSTS_PARTITION:-}" ]; then
  wait_until 120 there_or_over cut
  cut && touch "$HOSTS_FOLDER/is_cut"
  wait_until "$HOSTS_PARTITION" there_or_over heal
  join && touch "$HOSTS_FOLDER/has_healed"
fi
wait "${worker[@]}"
status=$?
if [ -n "$switch" ]; then
  kill -TERM $switch
  wait $switch || status=$?
  switch=
fi
exit $status
