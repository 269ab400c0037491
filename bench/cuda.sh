#!/usr/bin/env bash
# The CUDA backend against the device's limits and PyTorch, in one run, as Markdown tables:
#   bench/cuda.sh build/release/bench [python]
# Bandwidth is what the work needs at the least, over the time it took; the limit is a plain copy's in this run. Ratios are
# PyTorch's time over ours: above 1 is faster.
set -euo pipefail
bin=${1:?usage: bench/cuda.sh FOLDER [python]}
python=${2:-python3}
[ -x "$bin/bench_cuda_kernels" ] || { echo "$bin has no CUDA benchmarks: configure with -DTENDRIL_CUDA=ON -DTENDRIL_BENCH=ON" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$bin/bench_cuda_kernels" >"$scratch/ours"
"$bin/bench_cuda_training" >>"$scratch/ours"
[ -s "$scratch/ours" ] || exit 0
"$python" "$here/pytorch/gpu.py" >"$scratch/peer" 2>"$scratch/errors" || true
[ -s "$scratch/peer" ] || echo "PyTorch: $(failure "$scratch/errors")"
echo "$(date -u +%F), driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)"
awk -F'\t' -v OFS='' '
  function ratio(key, value) { return key in peer ? sprintf("%.2f", peer[key] / value) : "" }
  FILENAME == ARGV[1] { if ($1 == "device") print "PyTorch on ", $2; else peer[$1 FS $2] = $3; next }
  { kind[++n] = $1; name[n] = $2; value[n] = $3; work[n] = $4; ours[$1 FS $2] = $3 }
  $1 == "device" { print $2 }
  $2 == "copy (cudaMemcpyAsync)" { limit = $4 / $3 }
  END {
    print "\n| large tensors | ms | GB/s | of copy bandwidth | PyTorch / ours |\n|---|---|---|---|---|"
    for (i = 1; i <= n; ++i) if (kind[i] == "bandwidth")
      printf "| %s | %.3f | %.0f | %.2f | %s |\n", name[i], value[i], work[i] / value[i] / 1e6, work[i] / value[i] / limit, ratio(kind[i] FS name[i], value[i])
    print "\n| matmul | ms | TFLOP/s | cuBLAS by hand / ours | PyTorch / ours |\n|---|---|---|---|---|"
    for (i = 1; i <= n; ++i) if (kind[i] == "matmul")
      printf "| %s | %.3f | %.0f | %.2f | %s |\n", name[i], value[i], work[i] / value[i] / 1e9, ours["cublas" FS name[i]] / value[i], ratio(kind[i] FS name[i], value[i])
    print "\n| small operations, host time | us | PyTorch / ours |\n|---|---|---|"
    for (i = 1; i <= n; ++i) if (kind[i] == "host") printf "| %s | %.2f | %s |\n", name[i], value[i], ratio(kind[i] FS name[i], value[i])
    print "\n| training | ms | PyTorch / ours |\n|---|---|---|"
    for (i = 1; i <= n; ++i) if (kind[i] == "training") printf "| %s | %.2f | %s |\n", name[i], value[i], ratio(kind[i] FS name[i], value[i])
  }' "$scratch/peer" "$scratch/ours"
