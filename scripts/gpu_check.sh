#!/usr/bin/env bash
# Runs the checks that need a CUDA device: builds, runs every device test in the default and in the deterministic mode,
# some of them under compute-sanitizer, the examples, and the benchmarks (compared with PyTorch if it is installed).
#   scripts/gpu_check.sh [FOLDER [STEP...]]    FOLDER for logs, report.md and report.json; default: build/gpu_check
# The table below lists the steps and their deadlines; TENDRIL_GPU_STEPS names a file with another table. STEPs select
# steps by name; default: all. A step that fails or runs out of time does not stop the others. The report lists the
# steps that were not reached within TENDRIL_GPU_SECONDS (default 540).
# Needs bash, CMake, a compiler and the toolkit. If the machine lacks Boost and the other packages, TENDRIL_CARRIED
# names a folder or .tar.gz from scripts/gpu_carry.sh. TENDRIL_GPU_BUILD is the build folder; TENDRIL_CMAKE_ARGUMENTS is
# added to its configuration.
# Exit status: 0: all steps passed; 1: a step failed; 2: no device was found, or an argument is invalid; 3: no step
# failed, but one ran out of time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mkdir -p "${1:-build/gpu_check}" && cd "${1:-build/gpu_check}" && pwd)
wanted=("${@:2}")
export out
export build=${TENDRIL_GPU_BUILD:-build/gpu}
most=${TENDRIL_GPU_SECONDS:-540}
[[ $most =~ ^[1-9][0-9]*$ ]] || { echo "error: TENDRIL_GPU_SECONDS: got '$most', expected a number of seconds" >&2; exit 2; }

# name | seconds | required program, if not every machine has it | command
table() {
  cat <<'STEPS'
configure                   |  60 |                   | cmake -S . -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DTENDRIL_CUDA=ON -DTENDRIL_TESTS=ON -DTENDRIL_EXAMPLES=ON -DTENDRIL_BENCH=ON -DTENDRIL_INSTALL=OFF $arguments
build                       | 300 |                   | cmake --build "$build" -j "$(nproc)" -- $keep_going
device tests, default       | 120 |                   | TENDRIL_TEST_DETERMINISTIC=0 ctest --test-dir "$build" --output-on-failure --no-tests=error -j 4 -L cuda
device tests, deterministic | 120 |                   | TENDRIL_TEST_DETERMINISTIC=1 ctest --test-dir "$build" --output-on-failure --no-tests=error -j 4 -L cuda
memcheck                    |  60 | compute-sanitizer | TENDRIL_CUDA_CACHE=0 compute-sanitizer --tool memcheck --error-exitcode 1 "$build/tests/test_cuda" --run_test="$suites" --catch_system_errors=no
cartpole                    |  45 |                   | "$build/examples/apps/cartpole/cartpole_app" --episodes=5 --world-size=2 --device=cuda
language_model              |  45 |                   | "$build/examples/apps/language_model/language_model_app" --tiny --device=cuda
resnet50_pipeline           |  45 |                   | "$build/examples/apps/resnet50_pipeline/resnet50_pipeline_app" --tiny --batches=1 --device=cuda
image_classifier            |  45 |                   | "$build/examples/apps/image_classifier/image_classifier" --epochs=2 --device=cuda
transformer                 |  45 |                   | "$build/examples/apps/transformer/transformer" --steps=200 --device=cuda
kernels                     |  45 |                   | "$build/examples/kernels/kernels" --quick --device cuda
benchmarks                  | 120 |                   | bench/cuda.sh "$build/bench" python3 | tee "$out/cuda.md"
synccheck                   |  60 | compute-sanitizer | compute-sanitizer --tool synccheck --error-exitcode 1 "$build/tests/test_cuda" --run_test="$suites" --catch_system_errors=no
racecheck                   | 240 | compute-sanitizer | TENDRIL_CUDA_CACHE=0 compute-sanitizer --tool racecheck --error-exitcode 1 "$build/tests/test_cuda" --run_test="$race_suites" --catch_system_errors=no
STEPS
}
steps=$(if [ -n "${TENDRIL_GPU_STEPS:-}" ]; then cat "$TENDRIL_GPU_STEPS"; else table; fi)
trimmed() { sed -E 's/^ +//; s/ +$//' <<<"$1"; }
for name in "${wanted[@]}"; do
  grep -qE "^$name *\|" <<<"$steps" || { echo "error: unknown step '$name', expected one of: $(cut -d '|' -f 1 <<<"$steps" | sed -E 's/ +$//' | paste -sd ';')" >&2; exit 2; }
done

quoted() {  # prints a one-line JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "$(tr -d '\000-\037' <<<"$text")"
}
counts=([0]=0 [1]=0 [3]=0)
rows=() objects=()
# note NAME STATUS SECONDS LIMIT EXIT RESULT
note() {
  rows+=("| $1 | $2 | $3 | $4 | ${6//|//} |")
  objects+=("    {\"name\": $(quoted "$1"), \"status\": $(quoted "$2"), \"seconds\": $3, \"limit\": $4, \"exit\": $5, \"result\": $(quoted "$6")}")
}
# report DEVICE EXIT: writes both reports.
report() {
  local commit joined
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  joined=$(printf '%s,\n' "${objects[@]}")
  {
    echo "# ${1:-No CUDA device}"
    printf '\n%s, commit %s, %d s in all.\n' "$(date -u '+%F %H:%M UTC')" "$commit" "$SECONDS"
    [ ${#rows[@]} -eq 0 ] || printf '\n| step | status | seconds | of | result |\n|---|---|---|---|---|\n'
    [ ${#rows[@]} -eq 0 ] || printf '%s\n' "${rows[@]}"
    [ ! -s "$out/cuda.md" ] || { echo; cat "$out/cuda.md"; }
  } >"$out/report.md"
  printf '{\n  "device": %s,\n  "date": "%s",\n  "commit": "%s",\n  "seconds": %d,\n  "exit": %d,\n  "steps": [\n%s\n  ]\n}\n' \
    "$([ -n "$1" ] && quoted "$1" || echo null)" "$(date -u +%FT%TZ)" "$commit" "$SECONDS" "$2" "${joined%,}" >"$out/report.json"
}

rm -f "$out/cuda.md"
device="nvidia-smi is not installed"
if ! command -v nvidia-smi >/dev/null || ! device=$(timeout 30 nvidia-smi -L 2>&1) || [ -z "$device" ]; then
  echo "no CUDA device: ${device:-nvidia-smi lists none}" >&2
  echo "Nothing was run. To test on an emulated device: TENDRIL_PRESET=cuda-emulator scripts/test.sh" >&2
  report "" 2
  exit 2
fi
device=$(paste -sd ';' <<<"$device")

export arguments=${TENDRIL_CMAKE_ARGUMENTS:-}
if [ -n "${TENDRIL_CARRIED:-}" ]; then
  carried=$(readlink -f "$TENDRIL_CARRIED")
  [ -e "$carried" ] || { echo "error: TENDRIL_CARRIED: no file or folder '$TENDRIL_CARRIED'" >&2; exit 2; }
  if [ -f "$carried" ]; then
    mkdir -p "$out/carried" && tar -xzf "$carried" -C "$out/carried"
    carried=$out/carried
  fi
  arguments+=" -DCMAKE_PREFIX_PATH=$carried/usr"
  PATH+=:$carried/usr/bin
  export LD_LIBRARY_PATH="$carried/usr/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
export generator="Unix Makefiles" keep_going=-k  # continue after compile errors
! command -v ninja >/dev/null || generator=Ninja keep_going="-k 0"
export suites=${TENDRIL_SANITIZER_SUITES:-pointwise,copy,reduction,extremum,by_index,norm,layer_norm,cross_entropy,pool,lstm}
# racecheck only checks shared memory and takes minutes per suite, so it runs last, on the suites that use it most.
export race_suites=${TENDRIL_RACE_SUITES:-reduction,norm,layer_norm}
export TENDRIL_CUDA_STRICT=1  # cuDNN errors other than NOT_SUPPORTED are fatal

# Prints the line of a log that has the result.
result_of() { grep -oE '[0-9]+% tests passed.*|ERROR SUMMARY: .*|[0-9]+ tests? failed.*' "$1" | tail -n 1 || true; }
while IFS='|' read -r name limit needs command; do
  name=$(trimmed "$name") limit=$(trimmed "$limit") needs=$(trimmed "$needs")
  [ -n "$name" ] || continue
  [ ${#wanted[@]} -eq 0 ] || printf '%s\n' "${wanted[@]}" | grep -qxF "$name" || continue
  if [ -n "$needs" ] && ! command -v "$needs" >/dev/null; then
    note "$name" "not run: no $needs" 0 "$limit" null ""
    continue
  fi
  left=$((most - SECONDS))
  if [ "$left" -le 0 ]; then
    note "$name" "not reached" 0 "$limit" null ""
    counts[3]=1
    continue
  fi
  [ "$limit" -le "$left" ] || limit=$left
  log=$out/${name//[^a-z0-9_]/_}.log from=$SECONDS code=0
  echo "==> $name" >&2
  timeout -k 10 "$limit" bash -euo pipefail -c "$command" >"$log" 2>&1 </dev/null || code=$?
  seconds=$((SECONDS - from)) status=passed
  if [ "$code" -ne 0 ]; then
    tail -n 25 "$log" >&2
    # timeout returns 124, or 137 if it had to kill the command. A program may return these too, but not this late.
    if [[ $code == 124 || $code == 137 ]] && [ "$seconds" -ge "$((limit - 1))" ]; then
      status="out of time" counts[3]=1
    else
      status=failed counts[1]=1
    fi
  fi
  note "$name" "$status" "$seconds" "$limit" "$code" "$(result_of "$log")"
done <<<"$steps"

code=0
[ "${counts[3]}" -eq 0 ] || code=3
[ "${counts[1]}" -eq 0 ] || code=1
report "$device" $code
cat "$out/report.md"
exit $code
