#!/usr/bin/env bash
# What other people's programs make of files that are written here: tests/nn/peers.sh PROGRAM WHAT SCRIPT MODULES...
# PROGRAM (programs/peers.cpp) writes WHAT into a folder, and SCRIPT reads it with a Python that has the modules (find_python of
# scripts/lib.sh: TENDRIL_PYTHON or TENDRIL_PYTORCH may name one). Where there is none the test is skipped: status 77.
program=$1 what=$2 script=$3
shift 3
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"
python=$(find_python "$*") || { echo "skipped: no Python has $*; TENDRIL_PYTHON may name one that does"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" "$what" "$folder"
"$python" "$script" "$folder"
