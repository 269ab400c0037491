#!/usr/bin/env bash
# Builds and runs the benchmarks, tables in Markdown: scripts/bench.sh [ops] [rpc] [dist] [cartpole] [language_model]
# [resnet50_pipeline]; all of them by default. And cuda, on a machine with a device.
# The peers run where they are installed (Debian: python3-torch libtorch-dev libopenblas0-openmp); nothing here installs them.
source "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- ops rpc dist cartpole language_model resnet50_pipeline

install_dependencies
say "Building (preset release)"
configure release
build release >&2
bin=build/release/bench

# instructions CASE: executed by one operation, counted by callgrind: exact where timings are noisy.
instructions() {
  local few many
  few=$(count "$1" 1000)
  many=$(count "$1" 5000)
  echo $(((many - few) / 4000))
}
count() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bin/bench_ops" --only "$1" "$2" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

# The first Python that has PyTorch; any, where none has: the program then says so.
python_with_torch() {
  local python
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import torch' 2>/dev/null && echo "$python" && return
  done
  echo python3
}

echo "<!-- $(uname -sr), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1) -->"
for what in "$@"; do
  say "$what"
  case $what in
    ops)
      "$bin/bench_ops"
      if command -v valgrind >/dev/null; then
        printf '\n| case | instructions |\n|---|---|\n'
        for case in $("$bin/bench_ops" --list); do echo "| $case | $(instructions "$case") |"; done
      fi
      ;;
    rpc) for pin in one two none; do "$bin/bench_rpc" --pin $pin; echo; done ;;
    dist) for pin in one none; do "$bin/bench_dist" --pin $pin; echo; done ;;
    cartpole) bench/cartpole.sh build/release/examples/cartpole/cartpole 20 "$(python_with_torch)" ;;
    language_model) bench/language_model.sh build/release/examples/language_model/language_model 20 "$(python_with_torch)" ;;
    resnet50_pipeline)
      bench/resnet50_pipeline.sh build/release/examples/resnet50_pipeline/resnet50_pipeline "$(python_with_torch)" --batches 1
      ;;
    cuda) bench/cuda.sh build/release/bench "$(python_with_torch)" ;;
    *) echo "error: no benchmark is called '$what'; expected ops, rpc, dist, cartpole, language_model, resnet50_pipeline or cuda" >&2; exit 2 ;;
  esac
  echo
done
