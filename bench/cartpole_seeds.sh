#!/usr/bin/env bash
# Checks that the CartPole application solves its task for each seed, and prints a Markdown table with one row per seed:
#   bench/cartpole_seeds.sh build/release/examples/apps/cartpole/cartpole_app [FIRST SEED] [LAST SEED] [FLAGS]
# FLAGS are passed to the program.
set -euo pipefail
program=${1:?usage: bench/cartpole_seeds.sh PROGRAM [first seed] [last seed] [flags]}
first=${2:-1}
last=${3:-10}
shift $(($# < 3 ? $# : 3))
limit=1000
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "| seed | solved after rounds | environment steps | seconds |"
echo "|---|---|---|---|"
unsolved=0
for seed in $(seq "$first" "$last"); do
  "$program" --seed "$seed" --episodes "$limit" --curve "$scratch/curve" "$@" >"$scratch/out"
  IFS=, read -r episodes _ _ steps seconds < <(tail -1 "$scratch/curve.csv")
  if ! grep -q '^Solved!' "$scratch/out"; then
    episodes="not within $episodes"
    unsolved=$((unsolved + 1))
  fi
  echo "| $seed | $episodes | $steps | $(printf %.1f "$seconds") |"
done
echo
echo "$((last - first + 1 - unsolved)) of $((last - first + 1)) seeds solved within $limit rounds."
[ "$unsolved" -eq 0 ]
