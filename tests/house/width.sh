#!/bin/sh
# width.sh SOURCE [PAGES]: prose, tables and code of every page are under 120 columns wide. Comments, pictures and single
# words, which cannot be broken, may be wider. A row of a table that would be wider holds prose, for which a list
# or a sentence under the table is better.
cd "$1" || exit 1
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find . -name '*.md' ! -path './build/*' ! -path './out/*' ! -path './.git/*' | sort >"$list"
[ "$(wc -l <"$list")" -ge "${2:-1}" ] || { echo "found too few pages in $1"; exit 1; }
# shellcheck disable=SC2046
awk '
/^ *(<!--|!\[)/ || NF == 1 { next }
length($0) >= 120 { print FILENAME ":" FNR ": " length($0) " columns"; ++wide }
END { print NR " lines, " wide + 0 " too wide"; exit wide > 0 }
' $(cat "$list")
