#!/usr/bin/env bash
# Builds everything and runs every test but those of packaging: scripts/test.sh [CTest arguments], e.g.
# scripts/test.sh -L gradcheck
# Those of packaging (other projects build with what is installed here; every header of programs compiles alone):
# scripts/test.sh -L packaging; of them, the README's program, the pages' and the course: -L readers
# Every other header compiles alone (minutes): scripts/test.sh -L internal_headers
# TENDRIL_PRESET names another preset than dev; TENDRIL_CMAKE_ARGUMENTS adds to its configuration; TENDRIL_TARGETS builds
# only these; TENDRIL_JUNIT is a file for the results.
source "$(dirname "$0")/lib.sh"
preset=${TENDRIL_PRESET:-dev}
[ $# -gt 0 ] || set -- -LE 'packaging|internal_headers'

install_dependencies
say "Building (preset $preset)"
read -ra arguments <<<"${TENDRIL_CMAKE_ARGUMENTS:-}"
read -ra targets <<<"${TENDRIL_TARGETS:-}"
configure "$preset" "${arguments[@]}"
build "$preset" "${targets[@]}"
say "Testing"
# Twice as many as there are cores: the longest wait for deadlines most of their time.
exec ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$((2 * $(nproc)))" ${TENDRIL_JUNIT:+--output-junit "$TENDRIL_JUNIT"} "$@"
