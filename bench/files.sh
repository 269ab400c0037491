#!/usr/bin/env bash
# Reading and writing files of tensors beside the system's own speed and, where TENDRIL_PYTHON names a Python that has them, PyTorch
# and safetensors, in one run: bench/files.sh build/release/bench/bench_files [FOLDER]
set -euo pipefail
program=${1:?usage: bench/files.sh PROGRAM [FOLDER]}
scratch=$(mktemp -d -p "${2:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$scratch"' EXIT
"$program" "$scratch"
[ -z "${TENDRIL_PYTHON:-}" ] || "$TENDRIL_PYTHON" "$(dirname "$0")/pytorch/files.py" "$scratch"
