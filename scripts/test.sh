#!/usr/bin/env bash
# Builds everything and runs every test: scripts/test.sh [CTest arguments], e.g. scripts/test.sh -L gradcheck
# TENDRIL_PRESET names another preset than dev; TENDRIL_CMAKE_ARGUMENTS adds to its configuration.
source "$(dirname "$0")/lib.sh"
preset=${TENDRIL_PRESET:-dev}

install_dependencies
say "Building (preset $preset)"
read -ra arguments <<<"${TENDRIL_CMAKE_ARGUMENTS:-}"
configure "$preset" "${arguments[@]}"
build "$preset"
say "Testing"
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
