#!/usr/bin/env bash
# Calls and tensors between two processes of one host beside torch.distributed.rpc (TensorPipe) and a ping-pong of the same
# bytes with epoll, in one run, as Markdown tables:
#   bench/rpc.sh build/release/bench/bench_rpc [one|two|none...]
# One core for both processes, one for each, or where the scheduler puts them. Every PyTorch that peers.sh finds takes part.
# "of it": our time over its, for calls a second its over ours.
set -euo pipefail
program=${1:?usage: bench/rpc.sh PROGRAM [one|two|none...]}
shift
[ $# -gt 0 ] || set -- one two none
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t pythons < <(peers)

# over A B: A / B, of figures in which less is better; of calls a second B / A.
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
