#!/usr/bin/env bash
# Runs all suites with Clang's source-based coverage and prints the line, function and branch coverage of each folder
# and of all together: scripts/coverage.sh. The line-by-line report is out/coverage/index.html.
source "$(dirname "$0")/lib.sh"
install_packages clang-16 llvm-16 libclang-rt-16-dev
export CXX=clang++-16
profiles=$PWD/build/coverage/profiles
rm -rf "$profiles"
status=0
# %c: processes count in a mapped file, which stays valid when a process is killed. Two tests are excluded, because
# instrumentation uses memory that out_of_memory limits, and adds functions to the object files that the other compares.
LLVM_PROFILE_FILE="$profiles/%c%8m.profraw" TENDRIL_PRESET=coverage ./scripts/test.sh \
  -E '^tensor/(out_of_memory|loops_for_newer)' || status=$?
llvm-profdata-16 merge -sparse -o build/coverage/all.profdata "$profiles"
libraries=()
for library in tensor autograd nn data rpc dist envs; do libraries+=(-object "build/coverage/$library/libtendril_$library.so"); done
mkdir -p out/coverage
llvm-cov-16 show -format=html -output-dir=out/coverage -instr-profile=build/coverage/all.profdata "${libraries[@]}" >/dev/null
llvm-cov-16 export -summary-only -instr-profile=build/coverage/all.profdata "${libraries[@]}" >build/coverage/summary.json
/usr/bin/python3 - "$PWD" <<'PYTHON' | tee out/coverage/summary.md
import collections, json, sys
files = json.load(open("build/coverage/summary.json"))["data"][0]["files"]
sums = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
for file in files:
    path = file["filename"].removeprefix(sys.argv[1] + "/").removeprefix("include/tendril/")
    folder = path.split("/")[0]
    if folder not in ("tensor", "autograd", "nn", "data", "rpc", "dist", "envs"):
        continue
    for name in (folder, "all"):
        for what in ("lines", "functions", "branches"):
            sums[name][what][0] += file["summary"][what]["covered"]
            sums[name][what][1] += file["summary"][what]["count"]
print("| folder | lines | functions | branches |\n|---|---|---|---|")
for name, of in sums.items():
    if name != "all":
        print(f"| {name} | " + " | ".join(f"{100 * of[w][0] / max(of[w][1], 1):.1f}%" for w in ("lines", "functions", "branches")) + " |")
print("| all | " + " | ".join(f"{100 * sums['all'][w][0] / max(sums['all'][w][1], 1):.1f}%" for w in ("lines", "functions", "branches")) + " |")
PYTHON
exit "$status"
