#!/usr/bin/env bash
# commands.sh SOURCE EXAMPLES: every ```sh block of every page is what a shell can read; the scripts and files that it
# names are there, and each of the examples' programs (built in EXAMPLES) knows the flags that it is given. An
# application is in EXAMPLES/apps.
set -uo pipefail
cd "$1" || exit 1
examples=$2
commands=0 findings=0
finding() { echo "$1"; findings=$((findings + 1)); }
while IFS=: read -r page line text; do
  commands=$((commands + 1))
  bash -n <<<"$text" 2>/dev/null || finding "$page:$line: no shell command: $text"
  text=${text%% #*}
  # shellcheck disable=SC2086  # words
  set -- $text
  program=${1:-none} program=${program#./} help=
  for program in "$examples/$program/$program" "$examples/apps/${program%_app}/$program"; do
    if [ -x "$program" ]; then
      help=$("$program" --help 2>&1)
      break
    fi
  done
  for word in "$@"; do
    case $word in
      ./scripts/* | deploy/*) [ -e "$word" ] || finding "$page:$line: no such file: $word" ;;
      --*) [ -z "$help" ] || grep -q -- "${word%%=*}\b" <<<"$help" || finding "$page:$line: ${program##*/} has no $word" ;;
    esac
  done
done < <(find . -name '*.md' ! -path './build/*' ! -path './out/*' ! -path './.git/*' -print0 | sort -z |
  xargs -0 awk 'FNR == 1 || /^```/ { open = 0 } open && NF { print FILENAME ":" FNR ":" $0 } /^```sh$/ { open = 1 }')
echo "$commands commands, $findings findings"
[ "$commands" -ge 1 ] && [ "$findings" -eq 0 ]
