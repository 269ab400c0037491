#!/bin/sh
# trace_picture.sh SOURCE PICTURE CALL LANES PROGRAM [arguments...]: what docs/pictures/PICTURE.svg shows, but for
# the times, is what PROGRAM does when it is traced now, from one CALL to the next: lanes (LANES: workers or threads),
# calls and handlers, and that threads lead. 77 where there is no Python.
command -v python3 >/dev/null || exit 77
source=$1 picture=$2 call=$3 by=threads
[ "$4" = threads ] || by=
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set -e
shown() {
  grep -oE '<text [^>]*(bold|rotate)[^>]*>[^<]*|<title>[^:]*' "$1" | sed 's/.*>//' | sort
  grep -om1 leads "$1" || true
}
shown "$source/docs/pictures/$picture.svg" >"$folder/expected"
# Threads of a pool, and messages that come when they will, may differ from one call to the next, most on a busy
# machine, where a whole run may have none like the picture: one in five runs is enough.
for run in $(seq "${PICTURE_RUNS:-5}"); do
  (cd "$folder" && TENDRIL_TRACE=$folder/trace.json "$@" >"$folder/printed")
  nth=10
  while "$source/scripts/trace_picture.py" "$folder/trace.json" "$call" $nth $by >"$folder/now.svg" 2>"$folder/end"; do
    shown "$folder/now.svg" >"$folder/now"
    cmp -s "$folder/expected" "$folder/now" && exit 0
    nth=$((nth + 3))
  done
done
cat "$folder/end"
diff "$folder/expected" "$folder/now"
