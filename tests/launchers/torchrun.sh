#!/usr/bin/env bash
# TENDRIL_TORCHRUN names one; else that beside a Python that TENDRIL_PYTORCH or TENDRIL_PYTHON names, else that of PATH.
torchrun=${TENDRIL_TORCHRUN:-}
for python in ${TENDRIL_PYTORCH:-} ${TENDRIL_PYTHON:-}; do
  [ -n "$torchrun" ] || [ ! -x "$(dirname "$python")/torchrun" ] || torchrun=$(dirname "$python")/torchrun
done
torchrun=${torchrun:-torchrun}
source "$(dirname "$0")/lib.sh"
command -v "$torchrun" >/dev/null || skip "torchrun is not installed (PyPI: torch), nor does TENDRIL_PYTORCH name a Python that has it beside it"
# PyTorch 1.13's fails with Python 3.11 whatever it is to run.
timeout 100 "$torchrun" --standalone --nproc_per_node 1 --no_python true >"$folder/out" 2>&1 ||
  skip "$torchrun cannot even run \`true\`: $(tail -n 1 "$folder/out")"

check 3 "$torchrun" --standalone --nproc_per_node 3 --no_python "${command[@]}"
check 2 "$torchrun" --nnodes 1 --master_addr localhost --master_port "$port" --nproc_per_node 2 --no_python "${command[@]}"
