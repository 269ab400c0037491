#!/usr/bin/env bash
# headers_alone.sh COMPILER SOURCE_DIR public|internal [more flags]
# Checks that each public or internal header (cmake/internal_headers.regex) compiles alone, and that those outside
# detail/ and the layers of rpc/ that use Asio include no header of Asio, JSON, CUDA, oneDNN, spdlog or OpenSSL, directly or
# indirectly.
set -euo pipefail
compiler=$1 source=$2 which=$3
shift 3
export compiler flags="$*"
cd "$source"

check() {
  local header=$1 deps
  deps=$(mktemp)
  trap 'rm -f "$deps"' RETURN
  if ! echo "#include \"tendril/$header\"" |
    $compiler -std=c++20 -fsyntax-only -Wall -Wextra -Werror $flags -Iinclude -MD -MF "$deps" -x c++ -; then
    echo "$header does not compile alone"
    return 1
  fi
  case $header in */detail/* | rpc/connect/* | rpc/device/* | rpc/group/* | rpc/reference/* | rpc/session/* | rpc/simulation/* | rpc/transport/*) return 0 ;; esac
  if grep -o -m1 -E '(boost/asio/|boost/json/|cuda_runtime|dnnl|openssl/|spdlog/|fmt/)[^ ]*' "$deps"; then
    echo "$header includes the above, which programs should not see"
    return 1
  fi
}
export -f check

# The CUDA backend's own headers include the toolkit's, which this machine may not have.
private=$(grep -lE '#include <(cu(da|blas|dnn)[^>]*)>|tensor/cuda/(runtime/check|runtime/current|runtime/renewals|cudnn/dnn|cublas/blas)\.h"' $(find tensor/cuda -name '*.h') | sed 's/^/! -path /')
[ "$which" = internal ] && match=-E || match=-vE
# name_inl.h is the second half of name.h, and only name.h includes it.
find tensor autograd nn data rpc dist envs -name '*.h' ! -name '*_inl.h' $private | sort |
  grep $match -f <(grep -v '^#' cmake/internal_headers.regex) | xargs -P "$(nproc)" -I{} bash -c 'check {}'
