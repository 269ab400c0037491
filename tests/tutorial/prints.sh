#!/bin/sh
# prints.sh PROGRAM TEXT...: PROGRAM, run in a folder of its own, ends well, and its output has each TEXT.
program=$1
shift
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$program" >output 2>&1
status=$?
cat output
[ "$status" -eq 0 ] || { echo "ended with status $status"; exit 1; }
for text in "$@"; do
  grep -qF -- "$text" output || { echo "did not print: $text"; exit 1; }
done
