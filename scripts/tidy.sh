#!/usr/bin/env bash
# clang-tidy (.clang-tidy says which checks) over the libraries, examples, benchmarks, fuzzers and tests:
# scripts/tidy.sh [folder...], e.g. scripts/tidy.sh rpc examples
# Any finding is an error. All sources of a library are read at once, as a unity build does, in a fifth of the time of one after
# the other; so names in unnamed namespaces are to be unique within a library, and within the helpers of one folder's
# tests. Examples too (examples/one_source.cmake). tests/mutants has the libraries' own sources.
source "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- tensor autograd nn data rpc dist envs examples bench fuzz tests tests/fake_nccl tests/tutorial
install_dependencies
install_packages clang-tidy-16
configure tidy
# Clang does not know all of g++'s pragmas.
for folder in "$@"; do find "build/tidy/$folder/CMakeFiles" -name 'unity_*.cxx'; done |
  xargs -P "$(nproc)" -n 1 clang-tidy-16 -p build/tidy --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-pragmas
