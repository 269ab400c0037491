#!/usr/bin/env bash
# Builds everything and runs every test: scripts/test.sh [CTest arguments], e.g. scripts/test.sh -L gradcheck
source "$(dirname "$0")/lib.sh"
preset=${TENDRIL_PRESET:-dev}

install_dependencies
say "Building (preset $preset)"
configure "$preset"
build "$preset"
say "Testing"
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
