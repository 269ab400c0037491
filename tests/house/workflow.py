#!/usr/bin/env python3
"""workflow.py SOURCE: the hosted workflow is YAML with jobs that can be run, has the compilers and processors that the
project promises, and runs .ci/run in all of them, by names of parts that it has. 77 without python3-yaml."""
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml not found")
    sys.exit(77)

source = pathlib.Path(sys.argv[1])
findings = []
workflow = yaml.safe_load((source / ".github/workflows/checks.yml").read_text())
if not workflow.get(True):  # "on" is a boolean of YAML
    findings.append("it never runs: no `on`")
for name, job in workflow["jobs"].items():
    for key in ("runs-on", "timeout-minutes", "steps"):
        if key not in job:
            findings.append(f"{name} has no {key}")
    for step in job["steps"]:
        if ("run" in step) == ("uses" in step):
            findings.append(f"{name}: a step is either a command or an action: {step}")
parts = set(re.search(r"^parts=\((.*?)\)", (source / ".ci/run").read_text(), re.M)[1].split())
for name, job in workflow["jobs"].items():
    commands = [step["run"] for step in job["steps"] if "./.ci/run" in step.get("run", "")]
    if len(commands) != 1:
        findings.append(f"{name} does not run .ci/run once")

matrix = workflow["jobs"]["compilers"]["strategy"]["matrix"]
compilers = set(matrix["cxx"]) | {row["cxx"] for row in matrix["include"]}
for wanted in ("g++-12", "g++-13", "g++-14", "clang++-16", "clang++-17", "clang++-18", "clang++-19"):
    if wanted not in compilers:
        findings.append(f"no {wanted}")
places = " ".join(matrix["image"] + matrix["machine"] + [row["image"] + " " + row["machine"] for row in matrix["include"]])
for wanted in ("debian:", "ubuntu:", "fedora:", "-arm"):
    if wanted not in places:
        findings.append(f"nothing on {wanted}")

runs = " ".join(step.get("run", "") for step in workflow["jobs"]["compilers"]["steps"])
named = set(re.search(r"\./\.ci/run([a-z_ ]*)", runs)[1].split())
for part in sorted(named - parts):
    findings.append(f".ci/run has no part {part}")
if "tests" not in named:
    findings.append("other compilers run no tests")
print("\n".join(findings + [f"{len(workflow['jobs'])} jobs, {len(compilers)} compilers, {len(findings)} findings"]))
sys.exit(bool(findings))
