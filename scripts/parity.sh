#!/usr/bin/env bash
# Compares Tendril with PyTorch on fresh random cases (tests/parity/README.md):
#   scripts/parity.sh [--python PYTHON] [--count N] [--seed S] [--only FAMILY] [--seconds N] [--keep FOLDER]
# PYTHON, or the environment variable TENDRIL_PYTHON, is a Python with PyTorch; default: the first one found.
# Prints a summary; names file, case (family/seed), operation and element of every disagreement. The same seed and
# PyTorch version give the same cases: tests/parity/generate.py --seed S --only FAMILY. Exit status 1 on disagreement.
source "$(dirname "$0")/lib.sh"
python=${TENDRIL_PYTHON:-} count=4000 seed=$RANDOM only=() seconds=300 keep=
while [ $# -gt 0 ]; do
  [ $# -gt 1 ] || { echo "error: $1 needs a value" >&2; exit 2; }
  case $1 in
    --python) python=$2 ;;
    --count) count=$2 ;;
    --seed) seed=$2 ;;
    --only) only=(--only "$2") ;;
    --seconds) seconds=$2 ;;
    --keep) keep=$2 ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
python=$(find_torch "$python")

folder=${keep:-$(mktemp -d)}
[ -n "$keep" ] || trap 'rm -rf "$folder"' EXIT
say "Building (preset dev)"
configure dev
build dev test_parity >&2
say "Generating $count cases, seed $seed, with PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
timeout $((seconds + 60)) "$python" tests/parity/generate.py --out "$folder" --count "$count" --seed "$seed" --seconds "$seconds" "${only[@]}"
say "Comparing"
log=$folder/log
status=0
TENDRIL_PARITY_CASES=$folder timeout "$seconds" build/dev/tests/test_parity --run_test=cases/agree_with_pytorch --color_output=no >"$log" 2>&1 || status=$?
sed -n 's/.*error: in "cases\/agree_with_pytorch": //p' "$log" | head -n 100
grep ' cases, ' "$log" || { cat "$log"; exit 1; }
awk '/ cases, /{cases += $2; wrong += $4} END {printf "seed '"$seed"': %d cases, %d disagree\n", cases, wrong}' "$log"
exit $((status != 0))
