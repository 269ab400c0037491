#!/usr/bin/env python3
"""workflow.py SOURCE: the hosted workflow is YAML with jobs that can be run, has the compilers and processors that the
project promises, and installs every package that scripts/lib.sh does. 77 without python3-yaml."""
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("no python3-yaml")
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
if not any(step.get("run", "").endswith(".ci/run") for job in workflow["jobs"].values() for step in job["steps"]):
    findings.append("nothing runs .ci/run")

matrix = workflow["jobs"]["compilers"]["strategy"]["matrix"]
compilers = set(matrix["cxx"]) | {row["cxx"] for row in matrix["include"]}
for wanted in ("g++-12", "g++-13", "g++-14", "clang++-16", "clang++-17", "clang++-18", "clang++-19"):
    if wanted not in compilers:
        findings.append(f"no {wanted}")
places = " ".join(matrix["image"] + matrix["machine"] + [row["image"] + " " + row["machine"] for row in matrix["include"]])
for wanted in ("debian:", "ubuntu:", "fedora:", "-arm"):
    if wanted not in places:
        findings.append(f"nothing on {wanted}")

text = (source / ".github/workflows/checks.yml").read_text().replace("$boost", "")
script = (source / "scripts/lib.sh").read_text()
dependencies = re.search(r"^install_dependencies\(\) \{.*?^  install_packages (.*?)$", script, re.M | re.S)[1]
for package in re.sub(r'"|\$boost', "", dependencies).split():
    package = package.replace("libjpeg62-turbo-dev", "libjpeg-dev")
    if not re.search(rf"(?<![\w-]){re.escape(package)}(?![\w-])", text):
        findings.append(f"does not install {package}")
print("\n".join(findings + [f"{len(workflow['jobs'])} jobs, {len(compilers)} compilers, {len(findings)} findings"]))
sys.exit(bool(findings))
