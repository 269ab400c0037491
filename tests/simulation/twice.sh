#!/usr/bin/env bash
# twice.sh CAMPAIGN WORKLOAD LAST: runs the seeds 1 to LAST of a workload in one process, and again in two, in another
# order. All invariants must hold, and the transcripts of each seed must be equal.
set -euo pipefail
campaign=$1 workload=$2 last=$3 half=$((last / 2))
digests() { "$campaign" "$workload" "$1" "$2" digests; }
first=$(digests 1 "$last") || { echo "$first"; exit 1; }
second=$(digests $((half + 1)) "$last" && digests 1 "$half")
lines() { grep '^digest' | sort; }
[ "$(lines <<<"$first" | wc -l)" -eq "$last" ]
diff <(lines <<<"$first") <(lines <<<"$second") || { echo "failed: seeds of $workload with two transcripts"; exit 1; }
