#!/usr/bin/env bash
# Regenerates docs/pictures from the output and traces of examples/pictures, which must be built: graphs, views, a frame
# and schedules, which tests compare, and the trace of a call. Needs Graphviz (Debian: graphviz) for the graphs. For
# trace.svg, see scripts/trace_picture.py.
set -euo pipefail
cd "$(dirname "$0")/../docs/pictures"
program=${TENDRIL_PICTURES:-../../build/dev/examples/pictures/pictures}
if [ -x "$program" ]; then
  "$program" distributed >distributed_graph.dot
  for graph in tape engine unused stuck forks; do "$program" $graph >$graph.dot; done
  for picture in strides plans frame schedules; do "$program" $picture >$picture.svg; done
  trace=$(mktemp)
  trap 'rm -f "$trace"' EXIT
  TENDRIL_TRACE=$trace "$program" call
  ../../scripts/trace_picture.py "$trace" asks_back 50 threads >call.svg
  TENDRIL_TRACE=$trace "$program" step
  ../../scripts/trace_picture.py "$trace" embed 50 >step.svg
fi
for source in *.dot; do dot -Tsvg "$source" -o "${source%.dot}.svg"; done
