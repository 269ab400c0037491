#!/usr/bin/env python3
"""rpc_layers.py SOURCE: a file of rpc/ includes only its own layer and those above it in the first table of docs/rpc.md.

A folder is a layer. The second table lists the public headers in rpc/ that belong to each layer; a source in rpc/
belongs to the layer of its header.
"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
layers = {}  # of a folder or a public header without its ending
order = []
for line in (source / "docs/rpc.md").read_text().splitlines():
    if row := re.match(r"\| `(\w+)/` \|[^|]*\| (?:yes|no) \|$", line):
        order.append(row[1])
        layers[row[1]] = row[1]
    elif row := re.match(r"\| `(\w+)/` \|([^|]*)\|$", line):
        for header in re.findall(r"`(\w+)\.h`", row[2]):
            layers["rpc/" + header] = row[1]

findings = 0


def report(text):
    global findings
    findings += 1
    print(text)


def layer_of(path):
    parts = pathlib.PurePath(path).parts
    return layers.get(parts[1] if len(parts) > 2 else str(pathlib.PurePath(path).with_suffix("")))


for header in layers:
    if "/" in header and not (source / (header + ".h")).exists():
        report(f"docs/rpc.md: there is no {header}.h")
files = sorted(path for path in (source / "rpc").rglob("*") if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".inl"))
for path in files:
    name = str(path.relative_to(source))
    layer = layer_of(name)
    if layer is None:
        report(f"{name}: its layer is not in docs/rpc.md")
        continue
    for included in re.findall(r'^\s*#\s*include\s*["<]tendril/(rpc/[^">]+)[">]', path.read_text(), re.M):
        other = layer_of(included)
        if other is None:
            report(f"{name} includes {included}, whose layer is not in docs/rpc.md")
        elif order.index(other) > order.index(layer):
            report(f"{name} ({layer}) includes {included} ({other})")
print(f"{len(files)} files, {len(order)} layers, {findings} findings")
sys.exit(findings > 0 or len(order) < 2)
