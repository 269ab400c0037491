#!/usr/bin/env bash
# Builds and runs the benchmarks, and prints their tables in Markdown:
#   scripts/bench.sh [ops] [tensor] [files] [nn] [resnet] [loading] [rpc] [dist] [cartpole] [language_model]
#                    [resnet50_pipeline] [cuda]
# Default: all except cuda, which needs a device. Peers run only if they are installed. Debian's packages are
# python3-torch, libtorch-dev and libopenblas0-openmp; for the current PyTorch, run pip install torch in a virtual
# environment. TENDRIL_PYTORCH lists their Pythons: "venv/bin/python /usr/bin/python3".
source "$(dirname "$0")/lib.sh"
source bench/peers.sh
[ $# -gt 0 ] || set -- ops tensor files nn resnet loading rpc dist cartpole language_model resnet50_pipeline

install_dependencies
say "Building (preset release)"
configure release
build release >&2
bin=build/release/bench

echo "<!-- $(uname -sr), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1) -->"
for what in "$@"; do
  say "$what"
  case $what in
    ops)
      arguments=()
      for python in $(peers); do
        version=$(torch_version "$python")
        if problem=$(build_libtorch_peer "$python" "$bin/libtorch-$version"); then
          arguments+=(--peer "LibTorch $version" "$bin/libtorch-$version")
        else
          echo "LibTorch $version: $problem"
        fi
      done
      "$bin/bench_ops" "${arguments[@]}"
      if command -v valgrind >/dev/null; then
        printf '\n| case | instructions |\n|---|---|\n'
        bench/instructions.sh "$bin/bench_ops" | awk -F '\t' 'NR > 2 { print "| " $1 " | " $2 " |" }'
      fi
      ;;
    tensor) bench/tensor.sh "$bin/bench_tensor" ;;
    files) bench/files.sh "$bin/bench_files" ;;
    nn) bench/nn.sh "$bin/bench_nn" ;;
    resnet) bench/resnet.sh "$bin/bench_resnet" ;;
    loading) bench/loading.sh "$bin/bench_loading" ;;
    rpc)
      bench/rpc.sh "$bin/bench_rpc"
      for pin in one two none; do "$bin/bench_rpc" --pin $pin; echo; done
      ;;
    dist)
      for pin in one none; do "$bin/bench_dist" --pin $pin; echo; done
      "$bin/bench_dist_all_reduce"
      "$bin/bench_dist_pipeline"
      ;;
    cartpole) bench/cartpole.sh build/release/examples/apps/cartpole/cartpole_app ;;
    language_model) bench/language_model.sh build/release/examples/apps/language_model/language_model_app 5 ;;
    resnet50_pipeline)
      bench/resnet50_pipeline.sh build/release/examples/apps/resnet50_pipeline/resnet50_pipeline_app 3
      ;;
    cuda) bench/cuda.sh build/release/bench "$(peers | head -1)" ;;
    *) echo "error: unknown benchmark '$what', expected ops, tensor, files, nn, resnet, loading, rpc, dist, cartpole, language_model, resnet50_pipeline or cuda" >&2; exit 2 ;;
  esac
  echo
done
