#!/usr/bin/env bash
# What can only be shown on a machine with a CUDA device: builds, runs every device test, compute-sanitizer over some of
# them, and the benchmarks beside PyTorch where it is installed; a short table last. At most 9 minutes on 16 cores.
#   scripts/gpu_check.sh [FOLDER for logs and tables; default: build/gpu_check]
# Every step has a deadline, and all have one together: what it cuts off is said in the table. A step that fails does not stop the
# others; exit status 1 says that one did. TENDRIL_CMAKE_ARGUMENTS adds to the configuration; TENDRIL_NO_INSTALL=1 leaves apt alone.
source "$(dirname "$0")/lib.sh"
out=$(mkdir -p "${1:-build/gpu_check}" && cd "${1:-build/gpu_check}" && pwd)
started=$SECONDS
most=540
failed=0
summary=()

# step NAME SECONDS COMMAND...: its output goes to a log; the table gets one line.
step() {
  local name=$1 limit=$2 log status=ok from=$SECONDS left=$((most - (SECONDS - started)))
  shift 2
  if [ "$left" -le 0 ]; then
    summary+=("| $name | NOT REACHED | | |")
    failed=1
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  log="$out/${name// /_}.log"
  say "$name"
  timeout -k 10 "$limit" "$@" >"$log" 2>&1 || { status="FAILED ($?), see $log"; failed=1; tail -n 25 "$log" >&2; }
  summary+=("| $name | $status | $((SECONDS - from)) s | $(result_of "$log") |")
}
# The line of a log that says how it went.
result_of() { grep -oE '[0-9]+% tests passed.*|ERROR SUMMARY: .*|[0-9]+ tests? failed.*' "$1" | tail -n 1 || true; }

if ! nvidia-smi -L >"$out/devices.log" 2>&1; then
  echo "no CUDA device: $(cat "$out/devices.log")" >&2
  echo "Everything that needs one stays unrun. The emulated device: TENDRIL_PRESET=cuda-emulator scripts/test.sh" >&2
  exit 1
fi
[ -n "${TENDRIL_NO_INSTALL:-}" ] || install_dependencies

export TENDRIL_CUDA_STRICT=1  # what cuDNN refuses, but for NOT_SUPPORTED, is an error
build=build/gpu
mkdir -p "$build"
step configure 60 cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTENDRIL_CUDA=ON -DTENDRIL_WERROR=ON \
  -DTENDRIL_TESTS=ON -DTENDRIL_EXAMPLES=ON -DTENDRIL_BENCH=ON -DTENDRIL_INSTALL=OFF ${TENDRIL_CMAKE_ARGUMENTS:-}
step build 300 cmake --build "$build" -j "$(nproc)"
step "device tests" 150 ctest --test-dir "$build" --output-on-failure --no-tests=error -j 4 -L cuda
if command -v compute-sanitizer >/dev/null; then
  # Memory errors in our kernels, with every block an allocation of its own; races between threads of a block.
  for tool in memcheck racecheck; do
    TENDRIL_CUDA_CACHE=0 step "compute-sanitizer $tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/tests/test_cuda" --run_test="${TENDRIL_SANITIZER_SUITES:-pointwise,copy,reduction,by_index,norm,pool,lstm}" --catch_system_errors=no
  done
else
  summary+=("| compute-sanitizer | not installed | | |")
fi
for program in "cartpole --episodes=5 --world-size=2" "language_model --tiny" "resnet50_pipeline --tiny --batches=1" "image_classifier --epochs=2" "transformer --steps=200"; do
  # shellcheck disable=SC2086  # a program and its flags
  set -- $program
  step "$1" 45 "$build/examples/$1/$1" "${@:2}" --device=cuda
done
python=python3
step benchmarks 120 bash -o pipefail -c "bench/cuda.sh '$build/bench' $python | tee '$out/cuda.md'"

[ -s "$out/cuda.md" ] && cat "$out/cuda.md"
printf '\n| step | | time | |\n|---|---|---|---|\n'
printf '%s\n' "${summary[@]}"
printf '%s; %d s in all\n' "$(cat "$out/devices.log")" $((SECONDS - started))
exit $failed
