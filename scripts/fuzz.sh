#!/usr/bin/env bash
# Runs every fuzzer (fuzz/README.md) for a minute: scripts/fuzz.sh [COMMIT]
# With COMMIT, fuzzers whose parser has changed since then run for ten minutes each, or for less if together they would
# take more than 50. Inputs that reach new code are kept in out/fuzz/NAME and used by the next run. An input that makes
# a parser fail is kept there, too, and printed: add it to fuzz/corpus/NAME together with the fix.
source "$(dirname "$0")/lib.sh"
since=${1:-}
install_dependencies
install_packages clang-16 libclang-rt-16-dev
configure fuzz -DCMAKE_CXX_COMPILER=clang++-16
build fuzz

# parser NAME: prints the sources that a fuzzer tests.
parser() {
  case $1 in
    hello) echo rpc/wire ;;
    rendezvous) echo rpc/group rpc/wire ;;
    frame | parts | metadata | archive | control) echo rpc/wire ;;
    safetensors | index | npy | npz | pickle | pytorch) echo tensor/files ;;
    print) echo tensor/print.h tensor/print.cpp ;;
    *) echo data ;;
  esac
}
fuzzers=() changed=()
for program in build/fuzz/fuzz/fuzz_*; do
  name=${program##*/fuzz_}
  [[ $name == corpus_* || $name == *.* || ! -x $program ]] || fuzzers+=("$name")
done
if [ -n "$since" ]; then
  for name in "${fuzzers[@]}"; do
    # shellcheck disable=SC2046  # paths are words
    git diff --quiet "$since" -- "fuzz/$name.cpp" $(parser "$name") || changed+=("$name")
  done
fi
long=600
if [ ${#changed[@]} -gt 0 ]; then  # the whole run, including the build, must fit in an hour
  long=$((((3300 - SECONDS) * $(nproc) - 60 * (${#fuzzers[@]} - ${#changed[@]})) / ${#changed[@]}))
fi
[ "$long" -le 600 ] || long=600
[ "$long" -ge 60 ] || long=60

# one NAME SECONDS: runs one fuzzer.
one() {
  local found=out/fuzz/$1
  mkdir -p "$found"
  if build/fuzz/fuzz/fuzz_"$1" -max_total_time="$2" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 \
    -artifact_prefix="$found/broken-" "$found" "fuzz/corpus/$1" >"$found.log" 2>&1; then
    echo "$1: $2 s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log") inputs, $(ls "$found" | wc -l) kept"
  else
    echo "$1: FAILED after $(sed -n 's/^stat::number_of_executed_units: *//p' "$found.log") inputs:"
    tail -n 30 "$found.log"
    return 1
  fi
}
export -f one
for name in "${fuzzers[@]}"; do
  [[ " ${changed[*]} " == *" $name "* ]] && echo "$name $long" || echo "$name 60"
done | xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _
