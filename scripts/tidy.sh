#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy lists the checks) over libraries, examples, benchmarks, fuzzers and tests. Any finding is an
# error.
#   scripts/tidy.sh [FOLDER...]           all sources, or those of these folders: scripts/tidy.sh rpc examples
#   scripts/tidy.sh --changed REVISION    the sources and headers in which more than comments differs from REVISION
# The sources of a target are read together, as in a unity build, which takes a fifth of the time. Therefore names in
# unnamed namespaces must be unique within a library, within the examples (examples/one_source.cmake), and within the
# helpers of one folder's tests. tests/mutants compiles copies of the libraries' sources and is not read.
source "$(dirname "$0")/lib.sh"
folders=(tensor autograd nn data rpc dist envs examples bench fuzz tests tests/fake_nccl tests/tutorial)
revision=
if [ "${1:-}" = --changed ]; then
  revision=${2:-}
  [ $# -eq 2 ] && git rev-parse --verify --quiet "$revision^{commit}" >/dev/null ||
    { echo "error: got '$*', expected --changed and one revision" >&2; exit 2; }
  folders+=(examples/*/ examples/apps/*/ tests/house)  # each example by itself: few of them change
elif [ $# -gt 0 ]; then
  folders=("$@")
fi
install_dependencies
install_packages clang-tidy-16 libomp-16-dev  # a test uses OpenMP
configure tidy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t unity < <(for folder in "${folders[@]}"; do
  [ ! -d "build/tidy/$folder/CMakeFiles" ] || find "build/tidy/$folder/CMakeFiles" -name 'unity_*.cxx'
done)
[ ${#unity[@]} -gt 0 ] || { echo "error: no unity files in build/tidy of: ${folders[*]}" >&2; exit 1; }
here=$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"$PWD")
# Sources with special flags are not part of a unity file.
sed -n 's/^#include "\(.*\)"$/\1/p' "${unity[@]}" | sort -u >"$work/batched"
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/tidy/compile_commands.json | grep -v "^$here/build/" | sort -u |
  comm -23 - "$work/batched" | grep -E "^$here/($(IFS='|'; echo "${folders[*]}"))/" | grep -v "^$here/tests/mutants/" >"$work/alone" || true

# source_of FILE: prints a source that reads the file: itself, the source beside a header, or a source that includes it,
# directly or through other headers.
source_of() {
  local file=$1 source tries=0
  while [[ $file == *.h ]] && ((tries++ < 8)); do
    source=${file%.h}.cpp
    [ -e "$source" ] || source=$(first_that_includes "$file" '*.cpp')
    [ -n "$source" ] || source=$(first_that_includes "$file" '*.h')
    file=$source
  done
  [[ $file == *.h ]] || echo "$file"
}
# first_that_includes HEADER PATTERN: prints the first file that includes the header by its path, else a file in its
# folder or below that includes it by its name, else any file that does.
first_that_includes() {
  {
    git grep --untracked -l -E "#include \"(tendril/)?$1\"" -- "$2" ':!include' ||
      git grep --untracked -l -E "#include \"${1##*/}\"" -- "${1%/*}/$2" ':!include' ||
      git grep --untracked -l -E "#include \"([.a-z_]+/)*${1##*/}\"" -- "$2" ':!include' || true
  } | sed -n 1p
}

if [ -n "$revision" ]; then
  {
    git diff --numstat --no-renames --diff-filter=d --ignore-blank-lines -I '^ *//' "$revision" -- '*.cpp' '*.h' ':!include' |
      awk -F '\t' '$1 + $2 > 0 { print $3 }'
    git ls-files --others --exclude-standard -- '*.cpp' '*.h'
  } | while IFS= read -r file; do
    source=$(source_of "$file")
    if [ -n "$source" ]; then echo "$PWD/$source"; else say "not read, because no source includes it: $file"; fi
  done | sort -u >"$work/changed"
  say "$(wc -l <"$work/changed") sources to read"
  changed_unity=()
  for file in "${unity[@]}"; do  # beside each unity file, one that includes only changed sources
    name=${file%/*}/changed_${file##*/unity_}
    awk -v list="$work/changed" '
      BEGIN { while ((getline file < list) > 0) changed[file] }
      /^#include "/ { split($0, part, "\""); if (!(part[2] in changed)) next; any = 1 }
      { print }
      END { exit !any }' "$file" >"$name" && changed_unity+=("$name")
  done
  unity=("${changed_unity[@]}")
  comm -12 "$work/alone" "$work/changed" >"$work/both" && mv "$work/both" "$work/alone"
  # The remaining sources are compiled only in other configurations: with CUDA, or without an optional package.
  sed -n 's/^#include "\(.*\)"$/\1/p' "${unity[@]}" /dev/null | sort -u - "$work/alone" | comm -13 - "$work/changed" |
    sed 's/^/not compiled here: /'
fi
# Clang does not know all of g++'s pragmas.
{
  [ ${#unity[@]} -eq 0 ] || printf '%s\n' "${unity[@]}"
  cat "$work/alone"
} | xargs -r -d '\n' -P "$(nproc)" -n 1 clang-tidy-16 -p build/tidy --quiet --warnings-as-errors='*' --extra-arg=-Wno-unknown-pragmas
