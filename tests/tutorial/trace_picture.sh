#!/bin/sh
# call_picture.sh PROGRAM SOURCE: what docs/pictures/call.svg shows, but for the times, is what PROGRAM does when it is
# traced now: lanes, calls and handlers. 77 where there is no Python.
command -v python3 >/dev/null || exit 77
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
set -e
TENDRIL_TRACE=$folder/trace.json "$1" call
shown() { grep -oE '<text [^>]*(bold|rotate)[^>]*>[^<]*|<title>[^:]*' "$1" | sed 's/.*>//' | sort; }
shown "$2/docs/pictures/call.svg" >"$folder/expected"
# Which threads of a pool take the calls may differ from one call to the next: one like the picture is enough.
for call in 30 40 50 60 70 80; do
  "$2/scripts/trace_picture.py" "$folder/trace.json" asks_back $call threads >"$folder/now.svg"
  shown "$folder/now.svg" >"$folder/now"
  cmp -s "$folder/expected" "$folder/now" && exit 0
done
diff "$folder/expected" "$folder/now"
