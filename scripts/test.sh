#!/usr/bin/env bash
# Installs missing packages, builds the targets that the selected tests need, and runs the tests.
#
#   scripts/test.sh                        all tests
#   scripts/test.sh -R nn/conv             CTest's arguments select tests: -R, -E, -L, -LE
#   scripts/test.sh --changed [REVISION]   the tests of the folders that differ from REVISION (default: HEAD, that is,
#                                          uncommitted changes), and the smoke tests of the folders that depend on them
#
# TENDRIL_PRESET names the preset (default: edit with --changed, else dev). TENDRIL_CMAKE_ARGUMENTS is passed to CMake.
# TENDRIL_JUNIT names a file for the results. The labels packaging, internal_headers and launchers run only if -L
# names them.
source "$(dirname "$0")/lib.sh"

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then sed -n '2,/^[^#]/s/^# \{0,1\}//p' scripts/test.sh; exit; fi
changed=
if [ "${1:-}" = --changed ]; then
  changed=1 revision=HEAD
  shift
  if [ $# -gt 0 ] && [[ $1 != -* ]]; then revision=$1; shift; fi
fi
preset=${TENDRIL_PRESET:-$([ -n "$changed" ] && echo edit || echo dev)}
build=build/$preset
read -ra arguments <<<"${TENDRIL_CMAKE_ARGUMENTS:-}"
[ -z "${TENDRIL_JUNIT:-}" ] || TENDRIL_JUNIT=$(realpath -m "$TENDRIL_JUNIT")  # CTest would take it relative to $build
# check_arguments ARGUMENTS...: CTest ignores arguments that it does not know.
check_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      -R | --tests-regex | -I | --tests-information)
        [ -z "$changed" ] || { echo "error: $1: --changed selects the tests itself; use -E or -LE to leave some out" >&2; exit 2; } ;;
    esac
    case $1 in
      -R | -E | -L | -LE | -I | -j | --tests-regex | --exclude-regex | --label-regex | --label-exclude | --tests-information | \
        --parallel | --repeat | --repeat-until-fail | --timeout)
        [ $# -gt 1 ] || { echo "error: $1: expected a value after it" >&2; exit 2; }
        shift ;;
      -j[0-9]* | -N | --*=* | --output-on-failure | -V | -VV | -Q | --verbose | --extra-verbose | --quiet | --progress | --rerun-failed | --schedule-random | --stop-on-failure) ;;
      *) echo "error: got '$1', expected --changed or CTest's arguments, such as -R REGEX, -L LABEL, -V" >&2; exit 2 ;;
    esac
    shift
  done
}
check_arguments "$@"

# changed_tests: prints a regular expression for the names of the tests that `--changed` runs.
changed_tests() {
  local file folder folders=() names='' above
  while read -r file; do
    case $file in
      tests/*/* | fuzz/*) folder=${file#tests/} folder=${folder%%/*} ;;
      tests/*) folder=smoke ;;  # shared by all tests
      examples/apps/graphs/*) folder='(dist|language_model|resnet50_pipeline|step_through)' ;;
      examples/apps/support/*) folder='(cartpole|image_classifier|language_model|resnet50_pipeline|step_through|transformer)' ;;
      examples/apps/*/*) folder=${file#examples/apps/} folder=${folder%%/*} ;;
      examples/*/*) folder=${file#examples/} folder=${folder%%/*} ;;
      tensor/* | autograd/* | nn/* | data/* | rpc/* | dist/* | envs/*) folder=${file%%/*} ;;
      *) say "$file: --changed runs no test for it; docs/testing.md lists the checks"; continue ;;
    esac
    [[ " ${folders[*]} " == *" $folder "* ]] || folders+=("$folder")
  done < <(git diff --name-only --no-renames "$revision" -- && git ls-files --others --exclude-standard)
  for folder in "${folders[@]}"; do
    if [ "$folder" != smoke ] && ! list_tests -R "^$folder/|^examples/$folder" | grep -q .; then
      say "$folder: the preset $preset has no tests of it"
      continue
    fi
    names+="|$folder/.*|examples/$folder.*"
    case $folder in  # the folders whose libraries link to it
      smoke) above='.*' ;;
      tensor) above='autograd nn data rpc dist envs' ;;
      autograd) above='nn dist' ;;
      nn | rpc) above=dist ;;
      *) continue ;;
    esac
    names+="|$(list_tests -L smoke | grep -E "^(${above// /|})/" | paste -sd'|')"
  done
  echo "${names#|}"
}
# list_tests CTEST-ARGUMENTS...: prints the names of the selected tests.
list_tests() { ctest --test-dir "$build" -N "$@" | sed -n 's/^ *Test *#[0-9]*: \([^ ]*\).*/\1/p'; }

[ -z "$changed" ] || git rev-parse --verify --quiet "$revision^{commit}" >/dev/null ||
  { echo "error: unknown revision '$revision'" >&2; exit 2; }
install_dependencies
(install_packages mold) || say "without mold: tests link more slowly"
say "Configuring (preset $preset)"
configure "$preset" "${arguments[@]}"
if [ -n "$changed" ]; then
  chosen=$(changed_tests)
  [ -n "$chosen" ] || { say "No folder with tests differs from $revision"; exit 0; }
  set -- -R "^($chosen)\$" "$@"
fi
# Adds these labels to the caller's own -LE: with two of them, CTest excludes only tests that match both.
excluded='packaging|internal_headers|launchers'
if [[ " $* " != *' -L '* && " $* " != *' --label-regex '* ]]; then
  others=()
  while [ $# -gt 0 ]; do
    if [[ $1 = -LE || $1 = --label-exclude ]] && [ $# -gt 1 ]; then excluded+="|$2"; shift; else others+=("$1"); fi
    shift
  done
  set -- "${others[@]}" -LE "$excluded"
fi

targets=$(list_tests "$@" | awk -F'\t' '
  NR == FNR { needs[$1] = $2; next }
  !($1 in needs) { all = 1 }
  { n = split(needs[$1], each, " "); for (i = 1; i <= n; ++i) if (!(each[i] in seen)) { seen[each[i]]; targets = targets " " each[i] } }
  END { print all ? "all" : targets }' "$build/test_targets.tsv" -)
if [ -n "$targets" ]; then
  say "Building"
  # shellcheck disable=SC2086  # targets are words
  build "$preset" $targets
fi
say "Testing"
# Two jobs per processor: the longest tests spend most of their time waiting for deadlines.
jobs=$((2 * $(nproc)))
[ -z "$changed" ] || jobs=$((2 * jobs))  # after an edit, nothing else should need the processors
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" ${TENDRIL_JUNIT:+--output-junit "$TENDRIL_JUNIT"} "$@" || status=$?
# CTest lists the skipped tests without the reasons, which are in their output. Some tests print a reason more than once;
# print one. A test with a "Pass Reason" checks a program's output, so "skipped:" there does not mean that the test was
# skipped.
awk '/^[0-9]+\/[0-9]+ Testing: / { name = $3; why = ""; ran = 0 }
  sub(/^(suite )?skipped: /, "") { why = $0 }
  /^Test Pass Reason:/ { ran = 1 }
  /^"[^"]*" end time: / && !ran && why != "" { print "skipped " name ": " why }' "$build/Testing/Temporary/LastTest.log"
exit "$status"
