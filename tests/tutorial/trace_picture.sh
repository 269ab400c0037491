#!/bin/sh
# trace_picture.sh SOURCE PICTURE CALL LANES PROGRAM [arguments...]: checks that docs/pictures/PICTURE.svg equals a new
# trace of PROGRAM from one CALL to the next, except for the times: the calls and handlers of each lane (LANES: workers
# or threads), the arrows between them, and the workers with leading threads (picture_shape.py). Exits with 77 without
# Python.
command -v python3 >/dev/null || { echo "skipped: python3 not found"; exit 77; }
source=$1 picture=$2 call=$3 by=threads
[ "$4" = threads ] || by=
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set -e
shape=$(dirname "$0")/picture_shape.py
python3 "$shape" "$source/docs/pictures/$picture.svg" >"$folder/expected"
(cd "$folder" && TENDRIL_TRACE=$folder/trace.json "$@" >"$folder/printed")
for nth in 10 20 30; do
  python3 "$source/scripts/trace_picture.py" "$folder/trace.json" "$call" $nth $by >"$folder/now.svg"
  python3 "$shape" "$folder/now.svg" >"$folder/now"
  if ! diff "$folder/expected" "$folder/now"; then
    echo "$picture.svg (<) differs from call $nth of $call (>)"
    exit 1
  fi
done
