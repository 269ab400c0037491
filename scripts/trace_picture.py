#!/usr/bin/env python3
"""Draws one iteration of a trace (docs/observability.md): scripts/trace_picture.py TRACE CALL NTH [threads] > picture.svg

Shows the time from the NTH call (0, 1, ...) of a function whose name contains CALL until the next one. Each worker has
a lane, with calls above its line, handlers below, and an arrow from each call to its handler. With `threads` each
thread has a lane; a blue line shows how long a call waits for its result, and a green line below it how long the thread
leads (docs/rpc.md).
docs/pictures/trace.svg: TENDRIL_TRACE=trace.json language_model_app --tiny; scripts/trace_picture.py trace.json EmbeddingTable::forward 20
docs/pictures/call.svg: TENDRIL_TRACE=call.json pictures call; scripts/trace_picture.py call.json asks_back 20 threads
docs/pictures/step.svg: TENDRIL_TRACE=step.json pictures step; scripts/trace_picture.py step.json embed 50
"""
import json
import sys
from html import escape

if len(sys.argv) not in (4, 5) or sys.argv[4:] not in ([], ["threads"]):
    sys.exit(__doc__)
path, call, nth, by_thread = sys.argv[1], sys.argv[2], int(sys.argv[3]), len(sys.argv) == 5
events = json.load(open(path))["traceEvents"]
starts = sorted(e["ts"] for e in events if e["ph"] == "X" and e["name"].startswith("call ") and call in e["name"])
if nth + 1 >= len(starts):
    sys.exit(f"{path}: {len(starts)} calls of a name with '{call}', expected more than {nth + 1}")
begin, end = starts[nth], starts[nth + 1]
timed = sorted((e for e in events if "ts" in e), key=lambda e: e["ts"])
described = {e["pid"]: e["args"] for e in events if e["name"] == "tendril_worker"}
workers = {pid: args["worker"] for pid, args in described.items()}
results = {(e["pid"], e["id"]): e["ts"] for e in events if e["ph"] == "e"}  # (calling worker, span): time
# Leaves out a pass's own work, which is part of a handler's, and the calls with which tracing compares the clocks.
slices = [e for e in timed if e["ph"] == "X" and e["cat"] == "rpc" and "trace_clock_now" not in e["name"]]
# Workers' clocks agree only up to an error, so the clock of the root, the worker that makes the CALL, decides if it
# can. A handler on another worker is in the interval if the root's call and its result are. A call from another worker
# is in the interval if the root's handler is.
root = next(e["pid"] for e in slices if e["ts"] == begin and call in e["name"])
seen = {}  # span, of calls that the root makes or handles: (root's slice is in the interval, other worker's slice is)
for e in slices:
    if e["pid"] == root:
        during, span = begin <= e["ts"] < end, e["args"]["span"]
        ended = not e["name"].startswith("call ") or results.get((root, span), end) < end
        seen[span] = (during, during and ended)
slices = [e for e in slices
          if (seen[e["args"]["span"]][e["pid"] != root] if e["args"]["span"] in seen else begin <= e["ts"] < end)]


def error(pid):
    return described[pid]["clock_error_ns"] / 1000


leads = [e for e in timed if by_thread and e["ph"] == "X" and e["cat"] == "loop"
         and e["ts"] < end + error(e["pid"]) and e["ts"] + e["dur"] > begin - error(e["pid"])]
LANE = 110 if by_thread else 150


def lane(event):
    return (event["pid"], event["tid"]) if by_thread else event["pid"]


names = {}
for e in slices + leads if by_thread else []:  # numbered in order of appearance
    if lane(e) in names:
        continue
    others = sum(which[0] == e["pid"] for which in names)
    names[lane(e)] = f"{workers[e['pid']]}, thread {others + 1}"
names = names or workers
lanes = {which: 100 + LANE * i for i, which in enumerate(sorted(names, key=lambda which: (names[which] if by_thread else which)))}
WIDTH, LEFT, RIGHT = 1000, 130 if by_thread else 80, 90


def x(ts):
    return LEFT + (min(max(ts, begin), end) - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)


def short(name):
    """EmbeddingTable::forward of "call language_model::EmbeddingTable::forward(tendril::Tensor const&) const"."""
    name = name.removeprefix("call ").split("(")[0]
    while "<" in name:
        name = name[:name.index("<")] + name[name.rindex(">") + 1:]
    parts = name.split("::")
    return "::".join(parts[-2:]) if len(parts) > 1 and parts[-2][:1].isupper() else parts[-1]


height = 100 + LANE * len(lanes)
out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
       'font-family="sans-serif" font-size="11">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
       '<defs><marker id="a" markerWidth="7" markerHeight="6" refX="6" refY="3" orient="auto">'
       '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>']
for which, y in lanes.items():
    out.append(f'<text x="6" y="{y + 5}" font-size="14" font-weight="bold">{escape(names[which])}</text>')
    out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#999"/>')
labelled = []  # where labels begin
places = {}  # (span, is_call): the end point of an arrow to or from the slice, and the slice's name
for e in slices:
    y, is_call = lanes[lane(e)], e["name"].startswith("call ")
    top, wide = (y - 16 if is_call else y), max(3.0, x(e["ts"] + e["dur"]) - x(e["ts"]))
    out.append(f'<rect x="{x(e["ts"]):.1f}" y="{top}" width="{wide:.1f}" height="16" fill="{"#8fb7e3" if is_call else "#f0b267"}" '
               f'stroke="#333" stroke-width="0.5"><title>{escape(e["name"])}: {e["dur"]:.1f} us</title></rect>')
    # Labels slope away from the line, so that those of short slices side by side can be read.
    turned, at = (-28, y - 20) if is_call else (28, y + 28)
    crowded = any(p == lane(e) and 0 < x(e["ts"]) - at_x < 14 for p, at_x in labelled)
    labelled.append((lane(e), x(e["ts"])))
    out.append(f'<text transform="translate({x(e["ts"]) + 14 * crowded:.1f},{at}) rotate({turned})">{escape(short(e["name"]))}</text>')
    places[e["args"]["span"], is_call] = (x(e["ts"]) + (0 if by_thread else wide / 2), y, e["name"])
for e in slices if by_thread else []:
    if (e["pid"], e["args"]["span"]) in results and e["name"].startswith("call "):
        y, until = lanes[lane(e)], results[e["pid"], e["args"]["span"]]
        out.append(f'<line x1="{x(e["ts"]):.1f}" x2="{x(until):.1f}" y1="{y}" y2="{y}" stroke="#3a6ea5" stroke-width="3"/>')
for e in leads:
    y, since, until = lanes[lane(e)] + 3, e["ts"], e["ts"] + e["dur"]
    out.append(f'<line class="leads" x1="{x(since):.1f}" x2="{x(until):.1f}" y1="{y}" y2="{y}" stroke="#3f8f4f" stroke-width="3"/>')
callers = {e["id"]: workers[e["pid"]] for e in timed if e["ph"] == "s"}
for e in timed:
    if e["ph"] == "f" and (e["id"], True) in places and (e["id"], False) in places:
        (x1, y1, name), (x2, y2, _) = places[e["id"], True], places[e["id"], False]
        title = escape(f'{callers[e["id"]]} to {workers[e["pid"]]}: {name}')
        out.append(f'<line x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}" stroke="#555" marker-end="url(#a)"><title>{title}</title></line>')
for i in range(6):
    at = begin + (end - begin) * i / 5
    out.append(f'<text x="{x(at):.1f}" y="{height - 12}" text-anchor="middle" fill="#555">{at - begin:.0f} us</text>')
out.append("</svg>")
print("\n".join(out))
