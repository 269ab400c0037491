#!/usr/bin/env bash
# check.sh CASES PROGRAM: checks that random tests draw the same numbers for the same TENDRIL_TEST_SEED, and print it
# when they fail.
cases=$1 program=$2
findings=0
finding() { echo "$1"; findings=$((findings + 1)); }

# run SEED CASE: prints the output of the case and, on the last line, its status. With SEED -, the variable is not set.
run() {
  local setting=("TENDRIL_TEST_SEED=$1")
  [ "$1" != - ] || setting=(-u TENDRIL_TEST_SEED)
  env "${setting[@]}" "$cases" --run_test="seeds/$2" --catch_system_errors=no --color_output=no 2>&1
  echo "status $?"
}
drawn() { grep '^drawn: ' || echo none; }

both=$(run 5 first,second | drawn)
[ "$both" = "$(run 5 first | drawn; run 5 second | drawn)" ] || finding "a case draws other numbers after another case"
[ "$(sort -u <<<"$both" | wc -l)" -eq 2 ] || finding "two cases draw the same numbers"
[ "$(run 6 first | drawn)" != "$(run 5 first | drawn)" ] || finding "another seed draws the same numbers"
[ "$(run - first | drawn)" = "$(run 1 first | drawn)" ] || finding "without the variable the seed is not 1"
[ "$(tr ' ' '\n' <<<"$both" | sort | uniq -d | grep -c '[0-9]')" -eq 0 ] || finding "two streams share a number"

for wrong in '' -1 +1 1.5 0x10 ' 1' 1a 18446744073709551616; do
  printed=$(run "$wrong" first)
  grep -qxF "TENDRIL_TEST_SEED: got '$wrong', expected an unsigned integer" <<<"$printed" &&
    grep -qx 'status 2' <<<"$printed" || finding "'$wrong' is accepted"
done
grep -qx 'status 0' <<<"$(run 18446744073709551615 first)" || finding "the largest seed is refused"

line='seed: TENDRIL_TEST_SEED=42 reproduces this case'
# prints CASE TIMES [SEED]: checks how often a case prints the line, and the seed of a loop over seeds().
prints() {
  local printed at
  printed=$(run 42 "$1")
  [ "$(grep -cx "$line" <<<"$printed")" -eq "$2" ] || finding "$1 does not print the seed $2 times"
  at=$(sed -n 's/^seed: it .* in a loop over seeds(), at //p' <<<"$printed")
  [ "$at" = "${3:-}" ] || finding "$1 names the seed '$at' of a loop, expected '${3:-}'"
}
prints first 0
prints fixed_then_current 0
prints fails_without_a_draw 0
prints fails_after_a_draw 1
prints fails_after_a_draw_by_default 1
prints throws_after_a_draw 1
prints aborts_after_a_draw 1
prints fails_at_a_seed 1 99
prints throws_at_a_seed 1 99
prints aborts_at_a_seed 1 99
prints fails_behind_a_loop 1
grep -qx 'status 134' <<<"$(run 42 aborts_after_a_draw)" || finding "an abort does not end the process by SIGABRT"
grep -qx 'status 0' <<<"$(run 42 fixed_then_current)" || finding "seeds() returns unexpected seeds"

[ "$(TENDRIL_TEST_SEED=42 "$program" 2>&1 | grep -cx "$line")" -eq 1 ] || finding "a program does not print the seed"
TENDRIL_TEST_SEED=x "$program" >/dev/null 2>&1
[ $? -eq 2 ] || finding "a program accepts a seed that is not a number"
echo "$findings findings"
[ "$findings" -eq 0 ]
