#!/usr/bin/env python3
"""Prints the contents of a picture from scripts/trace_picture.py without the times: picture_shape.py PICTURE.svg

The sorted output has one line for each lane with its calls and handlers, one for each arrow, and one for each worker
with a leading thread. Threads have no numbers, because any thread of a pool may run a handler. Handlers of
ContextRelease are left out: nothing waits for them, so they may run in a later iteration.
"""
import sys
import xml.etree.ElementTree as xml
from collections import defaultdict

SVG = "{http://www.w3.org/2000/svg}"


def awaited(name):
    return name.startswith("call ") or "ContextRelease" not in name


picture = xml.parse(sys.argv[1]).getroot()
workers = {}  # by the height of the lane's line
for text in picture.iter(SVG + "text"):
    if text.get("font-weight") == "bold":
        workers[float(text.get("y")) - 5] = text.text.split(",")[0]
slices, waits, leads, shape = defaultdict(list), defaultdict(int), set(), []
for rect in picture.iter(SVG + "rect"):
    title = rect.find(SVG + "title")
    if title is None:
        continue
    name = title.text.rsplit(": ", 1)[0]
    lane = float(rect.get("y")) + (16 if name.startswith("call ") else 0)
    if awaited(name):
        slices[lane].append(name)
for line in picture.iter(SVG + "line"):
    title, y = line.find(SVG + "title"), float(line.get("y1"))
    if line.get("marker-end"):
        ends, name = title.text.split(": ", 1)
        if awaited(name.removeprefix("call ")):
            shape.append(f"{ends}: {name}")
    elif line.get("class") == "leads":
        leads.add(workers[y - 3])
    elif line.get("stroke") == "#3a6ea5":
        waits[y] += 1
for lane, names in slices.items():
    shape.append(f"{workers[lane]}: " + "; ".join(sorted(names) + ["waits"] * waits[lane]))
shape += [f"{worker} leads" for worker in leads]
print("\n".join(sorted(shape)))
