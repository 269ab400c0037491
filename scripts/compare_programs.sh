#!/usr/bin/env bash
# Compares the speed of three applications (examples/apps) with an earlier revision and prints a Markdown table:
#   scripts/compare_programs.sh [REVISION [ROUNDS]]
# Builds cartpole, language_model and resnet50_pipeline (preset release, CPU only) from the working tree and from REVISION.
# Then runs the two builds alternately, ROUNDS times each (default 10); every second round reverses their order.
# REVISION defaults to the commit where this branch left main, or to HEAD~1 on main itself. The builds are in
# build/compare; the checkout of REVISION is removed at the end. Uses ccache if it is installed.
source "$(dirname "$0")/lib.sh"
[ $# -le 2 ] && [[ ${1-HEAD} =~ ^[^-] ]] && [[ ${2:-10} =~ ^[1-9][0-9]*$ ]] || { sed -n '3s/^#   /usage: /p' scripts/compare_programs.sh >&2; exit 2; }

# Prints the default revision to compare with.
default_revision() {
  local main base
  for main in main origin/main; do
    base=$(git merge-base HEAD "$main" 2>/dev/null) || continue
    [ "$base" = "$(git rev-parse HEAD)" ] || { echo "$base"; return; }
  done
  echo HEAD~1
}
revision=$(git rev-parse --verify --quiet "${1:-$(default_revision)}^{commit}") ||
  { echo "error: unknown revision '${1:-HEAD~1}'" >&2; exit 2; }
rounds=${2:-10}
programs=(cartpole language_model resnet50_pipeline)
declare -A flags=(
  [cartpole]='--world-size 3 --seed 1 --episodes 100'
  [language_model]=''
  [resnet50_pipeline]='--tiny --micro-batches 4 --batches 40'
)
declare -A unit=([cartpole]='environment steps/s' [language_model]='iterations/s' [resnet50_pipeline]='images/s')

previous=build/compare/previous
remove_previous() { [ ! -e "$previous" ] || git worktree remove --force "$previous"; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"; remove_previous' EXIT
trap 'exit 1' INT TERM

# build_programs FOLDER: builds the programs of one tree. Both trees have the same layout, so they share ccache entries.
build_programs() (
  cd "$1" || exit
  mkdir -p build/compare
  cmake --preset release -B build/compare -DTENDRIL_CUDA=OFF -DTENDRIL_BENCH=OFF "${options[@]}" >build/compare/configure.log 2>&1 ||
    { cat build/compare/configure.log >&2; exit 1; }
  targets=("${programs[@]}")
  [ ! -d examples/apps ] || targets=("${programs[@]/%/_app}")
  cmake --build build/compare -j "$(nproc)" --target "${targets[@]}" >&2
)
options=()
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD}
  options=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTENDRIL_PCH=OFF)  # ccache does not cache with precompiled headers
fi
install_dependencies
say "Building the working tree"
build_programs .
say "Building $(git log -1 --format='%h (%s)' "$revision")"
git worktree prune
remove_previous
git worktree add --quiet --detach "$previous" "$revision"
build_programs "$previous"

# measure NAME FOLDER FILE: runs a program once and appends its speed to FILE. It prints the unit before or after the
# number.
measure() {
  local name=$1 number program="$2/build/compare/examples/apps/$1/${1}_app" curve=()
  [ -e "$program" ] || program="$2/build/compare/examples/$1/$1"  # before examples/apps
  [ "$name" != cartpole ] || curve=(--curve "$scratch/curve")
  # shellcheck disable=SC2086  # flags are words
  "$program" ${flags[$name]} "${curve[@]}" >"$scratch/printed" 2>"$scratch/errors" ||
    { cat "$scratch/printed" "$scratch/errors" >&2; echo "error: $program failed" >&2; exit 1; }
  number=$(sed -nE "s|^ *${unit[$name]} +([0-9.]+).*|\1|p; s|.* ([0-9.]+) ${unit[$name]}\$|\1|p" "$scratch/printed" | tail -1)
  [ -n "$number" ] || { cat "$scratch/printed" >&2; echo "error: $program printed no ${unit[$name]}" >&2; exit 1; }
  echo "$number" >>"$3"
}
# summary FILE: prints the median, the minimum and the maximum.
summary() {
  sort -g "$1" | awk '{ v[NR] = $1 }
    END { printf "%s %s %s\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR] }'
}

declare -A folder=([old]=$previous [new]=.)
for ((round = 1; round <= rounds; ++round)); do
  say "Round $round of $rounds"
  for name in "${programs[@]}"; do
    if ((round % 2)); then order=(old new); else order=(new old); fi
    for which in "${order[@]}"; do measure "$name" "${folder[$which]}" "$scratch/$name.$which"; done
  done
done

changed=
git diff --quiet HEAD || changed=' with uncommitted changes'
echo "<!-- $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) cores, $(date -u +%F); previous $(git rev-parse --short "$revision")," \
  "new $(git rev-parse --short HEAD)$changed; $rounds rounds in turn -->"
echo '| program | unit | previous: median [range] | new: median [range] | new over previous |'
echo '|---|---|---|---|---|'
for name in "${programs[@]}"; do
  read -r old old_least old_most < <(summary "$scratch/$name.old")
  read -r new new_least new_most < <(summary "$scratch/$name.new")
  printf '| %s | %s | %s [%s..%s] | %s [%s..%s] | %s |\n' "$name${flags[$name]:+ ${flags[$name]}}" "${unit[$name]}" \
    "$old" "$old_least" "$old_most" "$new" "$new_least" "$new_most" "$(awk "BEGIN { printf \"%.3f\", $new / $old }")"
done
