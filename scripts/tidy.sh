#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy lists the checks) on libraries, examples, benchmarks, fuzzers and tests. Any finding is
# an error.
#   scripts/tidy.sh [FOLDER...]           all sources, or those of these folders: scripts/tidy.sh rpc examples
#   scripts/tidy.sh --changed REVISION    the sources and headers that differ from REVISION in more than comments
# The sources of a library or of an example (examples/one_source.cmake) are read together, like a unity build, which
# takes a fifth of the time. So names in unnamed namespaces must be unique within a library, and within the helpers of
# one folder's tests. tests/mutants is left out because it compiles the libraries' own sources.
source "$(dirname "$0")/lib.sh"
folders=(tensor autograd nn data rpc dist envs examples bench fuzz tests tests/fake_nccl tests/tutorial)
revision=
if [ "${1:-}" = --changed ]; then
  revision=${2:?scripts/tidy.sh --changed needs a revision}
elif [ $# -gt 0 ]; then
  folders=("$@")
fi
install_dependencies
install_packages clang-tidy-16
configure tidy

# only CHANGED UNITY...: writes a copy of each unity file that includes only the sources listed in CHANGED, and prints
# the names of the copies that include any.
only() {
  awk -v list="$1" -v root="$PWD/" '
    BEGIN { while ((getline file < list) > 0) changed[root file] }
    FNR == 1 { name = FILENAME; sub(/unity_/, "changed_", name); printf "" >name; any = 0 }
    /^#include "/ { file = $2; gsub(/"/, "", file); if (!(file in changed)) next; if (!any++) print name }
    { print >name }' "${@:2}"
}
mapfile -t unity < <(for folder in "${folders[@]}"; do find "build/tidy/$folder/CMakeFiles" -name 'unity_*.cxx'; done)
if [ -n "$revision" ]; then
  list=$(mktemp)
  trap 'rm -f "$list"' EXIT
  for file in $(git diff --numstat --diff-filter=d -I '^ *//' -I '^ *$' "$revision" -- '*.cpp' '*.h' | awk '$1 + $2 > 0 { print $3 }'); do
    case $file in
      *.cpp) echo "$file" ;;
      include/*) ;;
      *) # A header is checked through the source of the same name, else through the first source that includes it.
        if [ -e "${file%.h}.cpp" ]; then
          echo "${file%.h}.cpp"
        else
          git grep -l -F -e "\"tendril/$file\"" -e "\"$file\"" -e "\"${file##*/}\"" -- '*.cpp' | head -n 1
        fi ;;
    esac
  done | sort -u >"$list"
  say "$(wc -l <"$list") sources to check"
  mapfile -t unity < <(only "$list" "${unity[@]}")
fi
# Clang does not know all of g++'s pragmas.
[ ${#unity[@]} -eq 0 ] ||
  printf '%s\n' "${unity[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-16 -p build/tidy --quiet --warnings-as-errors='*' \
    --extra-arg=-Wno-unknown-pragmas
