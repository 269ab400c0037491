#!/bin/sh
# prints.sh PROGRAM [--flags FLAGS] TEXT...: PROGRAM, run in a new folder, exits with status 0 and prints each TEXT.
program=$1 flags=
shift
if [ "$1" = --flags ]; then
  flags=$2
  shift 2
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
# shellcheck disable=SC2086  # flags are words
"$program" $flags >output 2>&1
status=$?
cat output
[ "$status" -eq 0 ] || { echo "ended with status $status"; exit 1; }
for text in "$@"; do
  grep -qF -- "$text" output || { echo "did not print: $text"; exit 1; }
done
