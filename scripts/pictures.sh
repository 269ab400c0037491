#!/usr/bin/env bash
# Makes docs/pictures/*.svg of the *.dot beside them. Needs Graphviz (Debian: graphviz), which nothing else does.
set -euo pipefail
cd "$(dirname "$0")/../docs/pictures"
for source in *.dot; do dot -Tsvg "$source" -o "${source%.dot}.svg"; done
