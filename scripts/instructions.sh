#!/usr/bin/env bash
# Compares the instruction counts of small operations with bench/instructions.tsv. Builds bench_ops; needs valgrind.
#   scripts/instructions.sh [PRESET]                    fails if a case executes over 2% more than in the table
#   scripts/instructions.sh --update [PRESET]           rewrites the table; give the reason in the commit
#   scripts/instructions.sh --compare COUNTS [TABLE]    compares two files without counting
# PRESET defaults to TENDRIL_PRESET or to dev; release gives the same counts. Exit status 77: the table is for another
# compiler, C library or processor or for other flags; differences are printed but ignored.
called_from=$PWD
source "$(dirname "$0")/lib.sh"
table=bench/instructions.tsv
usage() { sed -n '3,5s/^#   /usage: /p' scripts/instructions.sh >&2; exit 2; }

# compare TABLE COUNTS: prints every case as a row of a Markdown table, then one line per error and per hint.
compare() {
  awk -F '\t' -v table="$1" '
    function error(text) { messages = messages "error: " text "\n"; ++errors }
    FNR == 1 { ++file }
    /^# / { made_with[file] = substr($0, 3); next }
    $1 == "case" || NF == 0 { next }
    NF != 2 || $2 !~ /^[0-9]+$/ { error(FILENAME ":" FNR ": expected a case, a tab and a number, got \"" $0 "\""); next }
    file == 1 { expected[$1] = $2; order[++cases] = $1; next }
    { got[$1] = $2 }
    !($1 in expected) { error($1 ": got " $2 " instructions, but it is not in " table); order[++cases] = $1 }
    END {
      same = made_with[1] == made_with[2]
      print "| case | instructions | table | change |\n|---|---|---|---|"
      for (i = 1; i <= cases; ++i) {
        name = order[i]
        counted = name in got
        rise = counted && name in expected ? got[name] - expected[name] : 0
        change = rise && expected[name] ? sprintf("%+.2f%%", 100 * rise / expected[name]) : ""
        printf "| %s | %s | %s | %s |\n", name, got[name], expected[name], change
        if (!counted) error(name ": in " table ", but not counted")
        if (same && rise > 2 && rise > 0.02 * expected[name])
          error(name ": got " got[name] " instructions, expected " expected[name] " or at most 2% more (" change ")")
        if (same && rise < -2 && -rise > 0.02 * expected[name])
          messages = messages "hint: " name ": got " got[name] " instructions, the table has " expected[name] "; update it\n"
      }
      printf "\n%s", messages
      print cases " cases, " errors + 0 " errors"
      if (errors) exit 1
      if (!same) {
        print "skipped: the table is for " made_with[1] ", but these counts are of " made_with[2]
        exit 77
      }
    }' "$1" "$2"
}

update=
case ${1:-} in
  --compare)
    [ $# -ge 2 ] && [ $# -le 3 ] || usage
    table=$PWD/$table
    cd "$called_from"
    compare "${3:-$table}" "$2"
    exit
    ;;
  --update) update=1; shift ;;
esac
[ $# -le 1 ] && [[ ${1:-} != -* ]] || usage
preset=${1:-${TENDRIL_PRESET:-dev}}

install_dependencies
install_packages valgrind
say "Building (preset $preset)"
configure "$preset"
build "$preset" bench_ops >&2
say "Counting instructions"
counts="build/$preset/bench/instructions.tsv"
bench/instructions.sh "build/$preset/bench/bench_ops" >"$counts"
status=0
compare "$table" "$counts" || status=$?
[ -n "$update" ] || exit "$status"
cp "$counts" "$table"
say "Rewrote $table"
