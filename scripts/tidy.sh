#!/usr/bin/env bash
# clang-tidy (.clang-tidy says which checks) over the libraries' sources: scripts/tidy.sh [pattern of paths, e.g. rpc/detail]
# Any finding is an error. It reads compile commands of its own: clang cannot read what g++ precompiled.
source "$(dirname "$0")/lib.sh"
install_dependencies
install_packages clang-tidy-14
configure tidy
git ls-files 'tensor/*.cpp' 'autograd/*.cpp' 'nn/*.cpp' 'rpc/*.cpp' 'dist/*.cpp' 'envs/*.cpp' | grep -v '^tensor/cuda/' | grep -E "${1:-.}" |
  xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/tidy --quiet --warnings-as-errors='*'
