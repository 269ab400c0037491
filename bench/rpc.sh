#!/usr/bin/env bash
# Compares calls and tensors between two processes on one host with torch.distributed.rpc (TensorPipe) and with an epoll
# ping-pong of the same bytes. Prints Markdown tables:
#   bench/rpc.sh build/release/bench/bench_rpc [one|two|none...]
# The processes share one core, have one core each, or are placed by the scheduler. Runs every PyTorch that peers.sh
# finds. "of it": Tendril's time divided by the peer's; for calls/s, the peer's figure divided by Tendril's.
set -euo pipefail
program=${1:?usage: bench/rpc.sh PROGRAM [one|two|none...]}
shift
[ $# -gt 0 ] || set -- one two none
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# over NAME A B: prints A / B, or B / A for calls/s, where more is better.
over() { [ -z "$2" ] || [ -z "$3" ] || awk -v a="$2" -v b="$3" -v name="$1" 'BEGIN { printf "%.2f", name ~ /calls\/s/ ? b / a : a / b }'; }

for pin in "$@"; do
  case $pin in one) where="one core" ;; two) where="two cores" ;; none) where="not pinned" ;; *) echo "error: got '$pin', expected one, two or none" >&2; exit 2 ;; esac
  load=$(cut -d' ' -f1 /proc/loadavg)
  "$program" --quick --pin "$pin" --only compared >"$scratch/ours"
  header="| $where, load $load | | epoll | Tendril | of epoll |" rule="|---|---|---|---|---|"
  for i in "${!pythons[@]}"; do
    "${pythons[$i]}" "$here/pytorch/rpc.py" --pin "$pin" >"$scratch/peer$i" 2>"$scratch/errors" ||
      echo "PyTorch $(torch_version "${pythons[$i]}") failed: $(failure "$scratch/errors")"
    header+=" PyTorch $(torch_version "${pythons[$i]}") | Tendril's of it |" rule+="---|---|"
  done
  printf '%s\n%s\n' "$header" "$rule"
  while IFS=$'\t' read -r transport name value floor; do
    row="| $transport | $name | $floor | $value | $(over "$name" "$value" "$floor") |"
    for i in "${!pythons[@]}"; do
      peer=$(awk -F'\t' -v transport="$transport" -v name="$name" '$1 == transport && $2 == name { print $3 }' "$scratch/peer$i")
      row+=" $peer | $(over "$name" "$value" "$peer") |"
    done
    echo "$row"
  done <"$scratch/ours"
  echo
done
