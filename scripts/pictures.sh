#!/usr/bin/env bash
# Makes docs/pictures/*.svg of the *.dot beside them. Needs Graphviz (Debian: graphviz), which nothing else does.
# distributed_graph.dot, tape.dot, unused.dot and stuck.dot are first made anew by examples/pictures, where it is built; a test compares them.
set -euo pipefail
cd "$(dirname "$0")/../docs/pictures"
program=../../build/dev/examples/pictures/pictures
if [ -x "$program" ]; then
  "$program" distributed >distributed_graph.dot
  "$program" tape >tape.dot
  "$program" unused >unused.dot
  "$program" stuck >stuck.dot
fi
for source in *.dot; do dot -Tsvg "$source" -o "${source%.dot}.svg"; done
