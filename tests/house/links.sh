#!/bin/sh
# links.sh SOURCE: every link of every page leads to a file that is there, and, with #..., to a heading of it; and every
# test that docs/failures.md names as `SUITE/CASE` exists.
cd "$1" || exit 1
list=$(mktemp)
find . -name '*.md' ! -path './build/*' ! -path './out/*' ! -path './.git/*' | sort >"$list"
trap 'rm -f "$list" "$list.links" "$list.headings"' EXIT
pages=$(cat "$list")
[ "$(wc -l <"$list")" -ge "${2:-1}" ] || { echo "found too few pages in $1"; exit 1; }
# A heading's name in an address, as hosting sites make it: lower case, words joined by -, without other signs.
# shellcheck disable=SC2086
awk '
function slug(text) {
  gsub(/\]\([^)]*\)/, "", text)
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  return text
}
FNR == 1 { code = 0 }
/^ *```/ { code = !code; next }
code || /^    / { next }  # indented: code, too
/^#+ / {
  name = $0
  sub(/^#+ /, "", name)
  heading[FILENAME, slug(name)] = 1
}
{
  line = $0
  gsub(/`[^`]*`/, "", line)
  while (match(line, /\]\([^) ]+/)) {
    print FILENAME ":" FNR " " substr(line, RSTART + 2, RLENGTH - 2) > links
    line = substr(line, RSTART + RLENGTH)
  }
}
END { for (key in heading) { split(key, part, SUBSEP); print part[1] "#" part[2] > headings } }
' links="$list.links" headings="$list.headings" $pages
: >>"$list.links"
dead=0 number=0
while read -r from to; do
  case $to in http:* | https:* | mailto:*) continue ;; esac
  number=$((number + 1))
  page=${from%:*} file=${to%%#*} part=
  case $to in *#*) part=${to#*#} ;; esac
  if [ -n "$file" ]; then target=$(dirname "$page")/$file; else target=$page; fi
  if [ ! -e "$target" ]; then
    echo "$from: no such file: $to"
    dead=$((dead + 1))
  elif [ -n "$part" ] && ! grep -qxF "./$(realpath --relative-to=. "$target")#$part" "$list.headings"; then
    echo "$from: no such heading: $to"
    dead=$((dead + 1))
  fi
done <"$list.links"
if [ -f docs/failures.md ]; then
  # shellcheck disable=SC2016
  grep -o '`[a-z_0-9]*/[a-z_0-9]*`' docs/failures.md | tr -d '`' | sort -u >"$list.links"
  while read -r test; do
    file=$(grep -rlE "_TEST_CASE\(${test#*/}[,)]" --include='*.cpp' tests 2>/dev/null | head -1)
    if [ -z "$file" ] || ! grep -qE "_TEST_SUITE\(${test%/*}[,)]" "$file"; then
      echo "docs/failures.md: no such test: $test"
      dead=$((dead + 1))
    fi
  done <"$list.links"
fi
echo "$number links in $(wc -l <"$list") pages, $dead dead"
[ "$dead" -eq 0 ]
