#!/usr/bin/env bash
# headers_alone.sh COMPILER SOURCE_DIR INCLUDE_DIR -E|-v PATTERN [more flags]
# Each header whose path matches the pattern (-E), or does not (-v), compiles alone; one outside detail/ and the rooms that do I/O draws in neither Asio nor JSON, CUDA, oneDNN, spdlog or
# OpenSSL.
set -euo pipefail
compiler=$1 source=$2 include=$3 which=$4 pattern=$5
shift 5
export compiler include flags="$*"

check() {
  local header=$1 deps
  deps=$(mktemp)
  trap 'rm -f "$deps"' RETURN
  if ! echo "#include \"tendril/$header\"" |
    $compiler -std=c++20 -fsyntax-only -Wall -Wextra -Werror $flags -I"$include" -MD -MF "$deps" -x c++ -; then
    echo "$header does not compile alone"
    return 1
  fi
  case $header in */detail/* | rpc/session/* | rpc/threads/* | rpc/transport/* | rpc/launch/*) return 0 ;; esac
  if grep -o -m1 -E '(boost/asio/|boost/json/|cuda_runtime|dnnl|openssl/|spdlog/|fmt/)[^ ]*' "$deps"; then
    echo "$header is public and includes the above"
    return 1
  fi
}
export -f check

cd "$source"
# Headers that only the CUDA backend reads include CUDA's; on machines without it they cannot compile.
private=$(grep -lE '#include <(cu(da|blas|dnn)[^>]*)>|tensor/cuda/(runtime/check|runtime/current|runtime/renewals|cudnn/dnn|cublas/blas)\.h"' $(find tensor/cuda -name '*.h') | sed 's/^/! -path /')
# name_inl.h is the second half of name.h and read only by it.
find tensor autograd nn data rpc dist envs -name '*.h' ! -name '*_inl.h' $private | sort | grep -E "$which" -e "$pattern" | xargs -P "$(nproc)" -I{} bash -c 'check {}'
