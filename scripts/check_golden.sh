#!/usr/bin/env bash
# Regenerates every golden file and compares it with the committed one: scripts/check_golden.sh [PYTHON]
# PYTHON (or TENDRIL_PYTHON) must have PyTorch and NumPy. Default: the first Python that has PyTorch. Each file names
# the version that made it. tests/compare_golden.py defines the allowed differences. Exit status 1 if there are others.
source "$(dirname "$0")/lib.sh"
python=$(find_torch "${1:-${TENDRIL_PYTHON:-}}")
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
mkdir "$fresh"/{tensor,autograd,nn,envs,parity}
say "Making golden files with PyTorch $("$python" -c 'import torch; print(torch.__version__)')"
for what in pointwise promotion print; do "$python" "tests/tensor/generate_${what}_golden.py" "$fresh/tensor"; done
"$python" tests/autograd/golden.py "$fresh/autograd"
for script in tests/nn/golden*.py; do "$python" "$script" "$fresh/nn"; done
"$python" tests/envs/make_golden.py >"$fresh/envs/golden.h"
"$python" tests/parity/generate.py --out "$fresh/parity" --replay tests/parity/data

failed=0
mkdir "$fresh/committed" && cp tests/envs/golden.h "$fresh/committed"
for folder in tensor autograd nn parity; do
  "$python" tests/compare_golden.py "tests/$folder/data" "$fresh/$folder" || failed=1
done
"$python" tests/compare_golden.py "$fresh/committed" "$fresh/envs" || failed=1
"$python" tests/rpc/golden_frames.py --check || failed=1  # derived from the format's description, so independent of PyTorch's version
exit $failed
