#!/bin/sh
# width.sh SOURCE: prose of every page is at most 120 columns wide. Code, tables, comments and pictures, which cannot be
# broken, may be wider.
cd "$1" || exit 1
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find . -name '*.md' ! -path './build/*' ! -path './out/*' ! -path './.git/*' | sort >"$list"
[ "$(wc -l <"$list")" -ge "${2:-1}" ] || { echo "found too few pages in $1"; exit 1; }
# shellcheck disable=SC2046
awk '
FNR == 1 { code = 0 }
/^ *(```|~~~)/ { code = !code; next }
code || /^ *(\||<!--|!\[)/ { next }
length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; ++wide }
END { print NR " lines, " wide + 0 " too wide"; exit wide > 0 }
' $(cat "$list")
