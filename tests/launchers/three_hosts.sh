# shellcheck shell=bash disable=SC2034
# Sourced by tests with several hosts: makes three, which are namespaces of this one. Each has an address of its own,
# 10.7.0.1 to 10.7.0.3, a name, node1 to node3, a loopback and a folder for temporary files. `on N COMMAND` runs there;
# "$folder/agent" NODE COMMAND starts what a launcher would start by ssh; the key's file is "$folder/key".
if [ "${1:-}" != inside ]; then
  no() { echo "skipped: $*"; exit 77; }
  unshare -rnmu true 2>/dev/null || no "this machine lets users make no namespaces"
  command -v ip >/dev/null && command -v nsenter >/dev/null || no "ip or nsenter is not installed"
  exec unshare -rnm "$BASH" "$0" inside "$@"
fi
shift
programs=("$@")
source "$(dirname "$0")/lib.sh"
ip link add bridge0 type bridge 2>/dev/null && ip link set bridge0 up || skip "there can be no bridge between namespaces here"
private=$folder/private  # on each host a file system of its own
mkdir "$private"
declare -a host
# A process keeps the namespaces of each host alive. It prints a line once they exist and ends with this script.
for n in 1 2 3; do
  # shellcheck disable=SC2016  # the inner shell expands it
  exec {entered}< <(exec unshare -nmu bash -c 'echo && exec tail -f --pid="$0" /dev/null >/dev/null' $$ 2>/dev/null)
  host[n]=$!
  started+=($!)
  read -r -t 10 <&"$entered" || { echo "failed: node$n did not start"; exit 1; }
  exec {entered}<&-
done
on() { local n=$1; shift; nsenter -t "${host[n]}" -n -m -u -- "$@"; }
for n in 1 2 3; do
  ip link add "port$n" type veth peer name eth0 netns "${host[n]}" && ip link set "port$n" master bridge0 up
  on $n hostname "node$n"
  on $n mount -t tmpfs none "$private"
  { echo "127.0.0.1 localhost"; for other in 1 2 3; do echo "10.7.0.$other node$other"; done; } |
    on $n tee "$private/hosts" >/dev/null
  on $n mount --bind "$private/hosts" /etc/hosts
  on $n ip link set lo up
  on $n ip addr add "10.7.0.$n/24" dev eth0
  on $n ip link set eth0 up
done

cat >"$folder/agent" <<END
#!/usr/bin/env bash
pids=(0 ${host[1]} ${host[2]} ${host[3]})
to=\${1#node}
shift
exec nsenter -t "\${pids[to]}" -n -m -u -- env TMPDIR="$private" sh -c "\$*"
END
chmod +x "$folder/agent"
(umask 077 && head -c 32 /dev/urandom >"$folder/key")

# over_hosts WHERE BY TEXT PROGRAM ARGUMENTS...: what "${launch[@]}" starts, a process on each host, ends well; each says
# that it meets the others at WHERE (an expression) and that BY started it, and one of them says TEXT.
over_hosts() {
  local where=$1 by=$2 text=$3
  shift 3
  echo "\$ ${launch[*]} $*"
  # shellcheck disable=SC2016  # its variables are the processes'
  on 1 env TMPDIR="$private" TENDRIL_SHOW_LAUNCH=1 TENDRIL_KEY_FILE="$folder/key" timeout -k 10 150 "${launch[@]}" \
    sh -c 'echo "rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} is on $(uname -n)"; exec "$0" "$@"' "$@" \
    >"$folder/out" 2>"$folder/err" </dev/null || { echo "status $?"; cat "$folder/out" "$folder/err"; exit 1; }
  cat "$folder/out" "$folder/err"
  for rank in 0 1 2; do
    grep -q "rank $rank is on node$((rank + 1))" "$folder/out" || { echo "failed: rank $rank was elsewhere"; exit 1; }
    grep -qE "is rank $rank of 3 at ($where), started by $by \(" "$folder/err" ||
      { echo "failed: rank $rank was not started as a member"; exit 1; }
  done
  grep -qF -- "$text" "$folder/out" || { echo "failed: expected '$text'"; exit 1; }
}
