#!/usr/bin/env python3
"""exports.py SOURCE: checks that exactly the headers that programs, examples or other libraries include have the marks
of tensor/export.h around their namespaces. A class that is defined without marks must not be declared between marks,
which would export it wherever that declaration is read first. cmake/internal_headers.regex lists internal headers."""
import pathlib
import re
import sys

LIBRARIES = ("tensor", "autograd", "nn", "data", "rpc", "dist", "envs")
source = pathlib.Path(sys.argv[1])
files = {str(p.relative_to(source)): p.read_text() for library in LIBRARIES for p in (source / library).rglob("*")
         if p.suffix in (".h", ".cuh", ".cpp", ".cu")}
includes = {f: [i for i in re.findall(r'^ *#include "tendril/([^"]+)"', text, re.M) if i in files] for f, text in files.items()}
patterns = (source / "cmake/internal_headers.regex").read_text().splitlines()
internal = "|".join(p for p in patterns if not p.startswith("#"))

todo = [f for f in files if f.endswith(".h") and not re.search(internal, f)]
todo += [i for f in files for i in includes[f] if i.split("/")[0] != f.split("/")[0]]
todo += [i for p in (source / "examples").rglob("*") if p.suffix in (".h", ".cpp")
         for i in re.findall(r'^ *#include [<"]tendril/([^">]+)[">]', p.read_text(), re.M) if i in files]
public = set()
while todo:
    header = todo.pop()
    if header not in public:
        public.add(header)
        todo += includes[header]

hidden = {name for f, text in files.items() if f.endswith(".h") and f not in public
          for name in re.findall(r"^(?:class|struct) (\w+)[^;{]*\{", text, re.M)}
shown = {name for f in public for name in re.findall(r"^(?:class|struct) (\w+)[^;{]*\{", files[f], re.M)}
findings = []
for file in sorted(public):
    marked = "".join(re.findall(r"^TENDRIL_API_BEGIN$(.*?)^TENDRIL_API_END$", files[file], re.M | re.S))
    findings += [f"{file}: announces {name}, which is hidden, between the marks"
                 for name in re.findall(r"^(?:class|struct) (\w+);", marked, re.M) if name in hidden - shown]
for file in sorted(f for f in files if f.endswith(".h") and f != "tensor/export.h"):
    marks = [len(re.findall(rf"^TENDRIL_API_{which}$", files[file], re.M)) for which in ("BEGIN", "END")]
    wanted = int(file in public and bool(re.search(r"^namespace ", files[file], re.M)))
    if marks != [wanted, wanted]:
        findings.append(f"{file}: {marks[0]} TENDRIL_API_BEGIN and {marks[1]} TENDRIL_API_END, expected {wanted}")
print("\n".join(findings + [f"{len(public)} public headers of {len(files)} files, {len(findings)} findings"]))
sys.exit(bool(findings) or not public)
