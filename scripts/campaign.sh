#!/usr/bin/env bash
# Simulates random distributed programs (tests/simulation/samples) with new seeds:
#   scripts/campaign.sh [SECONDS]    runs all workloads for so long, by default 600 s
#   scripts/campaign.sh --defects    puts each defect of tests/simulation/defects back, and requires that it is found
# Each run starts at the seeds after those that docs/simulation-ledger.tsv lists, and appends a line for each workload:
# commit, workload, first seed, last seed, failures. Runs with uncommitted changes are not recorded. Status 1 if a seed
# failed. TENDRIL_PRESET names the build (default: dev). TENDRIL_NO_BUILD=1 skips building it.
source "$(dirname "$0")/lib.sh"
ledger=docs/simulation-ledger.tsv
[ $# -le 1 ] && [[ ${1:-600} =~ ^([1-9][0-9]*|--defects)$ ]] ||
  { echo "usage: scripts/campaign.sh [SECONDS | --defects]" >&2; exit 2; }
preset=${TENDRIL_PRESET:-dev}

if [ "${1:-}" = --defects ]; then
  tree=$PWD/build/defects
  mkdir -p build
  git worktree prune
  [ -e "$tree/.git" ] || git worktree add --quiet --detach "$tree" HEAD
  git -C "$tree" checkout --quiet --force --detach "$(git rev-parse HEAD)"
  status=0
  for patch in tests/simulation/defects/*.patch; do
    workload=$(sed -n 's/^Workload: //p' "$patch") seeds=$(sed -n 's/^Seeds: //p' "$patch")
    git -C "$tree" checkout --quiet --force HEAD
    git -C "$tree" apply "$PWD/$patch" || { echo "failed: $patch does not apply"; status=1; continue; }
    (cd "$tree" && export CCACHE_BASEDIR=$tree && configure "$preset" -DTENDRIL_EXAMPLES=OFF && build "$preset" test_simulation_campaign) >"$tree.log" 2>&1 ||
      { echo "failed: $patch does not build (build/defects.log)"; status=1; continue; }
    # A defect may also crash the process.
    if "$tree/build/$preset/tests/simulation_programs/campaign" "$workload" 1 "$seeds" first >"$tree.log" 2>&1; then
      echo "failed: $(basename "$patch"): $workload found nothing in $seeds seeds"
      status=1
    else
      echo "found: $(basename "$patch"): $workload, $(grep -m 1 -o 'seed [0-9]*' "$tree.log" || echo 'which crashed')"
    fi
  done
  git worktree remove --force "$tree"
  exit "$status"
fi

if [ -z "${TENDRIL_NO_BUILD:-}" ]; then
  configure "$preset"
  build "$preset" test_simulation_campaign
fi
campaign=$PWD/build/$preset/tests/simulation_programs/campaign
chunk=250  # seeds of one process
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export campaign out

# one_chunk WORKLOAD FIRST LAST: one process; if it crashes, one process for each seed.
one_chunk() {
  local log=$out/$1.$2 seed failures=0
  if ! { "$campaign" "$@" >"$log" 2>&1 || true; grep '^ledger' "$log" >>"$out/ledger"; }; then
    for ((seed = $2; seed <= $3; ++seed)); do
      "$campaign" "$1" "$seed" "$seed" >>"$log" 2>&1 || { failures=$((failures + 1)); echo "$1, seed $seed: failed or crashed"; }
    done
    echo "ledger $1 $2 $3 $failures" >>"$out/ledger"
  fi
  ! grep -q ', seed ' "$log" || grep -v '^ledger\|: seeds ' "$log"
}
export -f one_chunk

[ -e "$ledger" ] || printf 'commit\tworkload\tfirst seed\tlast seed\tfailures\n' >"$ledger"
read -ra workloads < <("$campaign" 2>&1 | sed -n 's/^workloads: *//p')
[ ${#workloads[@]} -gt 0 ] || { echo "error: $campaign names no workloads" >&2; exit 2; }
declare -A next
for workload in "${workloads[@]}"; do
  next[$workload]=$(awk -F'\t' -v w="$workload" '$2 == w && $4 > last { last = $4 } END { print last + 1 }' "$ledger")
done
end=$((SECONDS + ${1:-600}))
while [ "$SECONDS" -lt "$end" ]; do
  for workload in "${workloads[@]}"; do
    echo "$workload ${next[$workload]} $((next[$workload] + chunk - 1))"
    next[$workload]=$((next[$workload] + chunk))
  done >"$out/round"
  xargs -P "$(nproc)" -L 1 bash -c 'one_chunk "$@"' chunk <"$out/round"
done

lines=$(awk -v commit="$(git rev-parse --short=12 HEAD)" -v OFS='\t' '
  { if (!($2 in first) || $3 < first[$2]) first[$2] = $3; if ($4 > last[$2]) last[$2] = $4; failures[$2] += $5 }
  END { for (w in first) print commit, w, first[w], last[w], failures[w] }' "$out/ledger" | sort)
echo "$lines"
if [ -z "$(git status --porcelain -- . ":!docs/*ledger.tsv")" ]; then
  echo "$lines" >>"$ledger"
else
  say "not recorded: there are uncommitted changes"
fi
awk -F'\t' '{ failures += $5; seeds += $4 - $3 + 1 } END { print seeds " seeds, " failures " failures"; exit failures > 0 }' <<<"$lines"
