#!/usr/bin/env bash
# Compares the CUDA backend with the device's limits and with PyTorch, and prints Markdown tables:
#   bench/cuda.sh build/release/bench [PYTHON]
# Bandwidth is the minimum number of bytes that an operation must move, divided by its time. The limit is the bandwidth
# of a plain copy in the same run. Ratios are PyTorch's time divided by Tendril's: above 1, Tendril is faster.
set -euo pipefail
bin=${1:?usage: bench/cuda.sh FOLDER [python]}
python=${2:-python3}
[ -x "$bin/bench_cuda_kernels" ] || { echo "$bin has no CUDA benchmarks: configure with -DTENDRIL_CUDA=ON -DTENDRIL_BENCH=ON" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
source "$here/peers.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

bad=0  # a failing benchmark does not stop the others
"$bin/bench_cuda_kernels" >"$scratch/ours" || bad=1
[ -s "$scratch/ours" ] || exit $bad
"$bin/bench_cuda_training" >>"$scratch/ours" || bad=1
"$bin/bench_tensor" --device cuda | awk -F'\t' -v OFS='\t' '{ print "row", $1, $2, 0 }' >>"$scratch/ours" || bad=1
"$python" "$here/pytorch/gpu.py" >"$scratch/peer" 2>"$scratch/errors" || true
"$python" "$here/pytorch/tensor.py" --device cuda 2>>"$scratch/errors" | awk -F'\t' -v OFS='\t' '{ print "row", $1, $2 }' >>"$scratch/peer" || true
"$here/../scripts/cuda_roofline.sh" | awk -F' *[|] *' -v OFS='\t' '$8 + 0 { print "paper", $2, $8 }' >"$scratch/paper"
[ -s "$scratch/peer" ] || echo "PyTorch: $(failure "$scratch/errors")"
echo "$(date -u +%F), driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)"
awk -F'\t' -v OFS='' '
  function ratio(key, value) { return key in peer ? sprintf("%.2f", peer[key] / value) : "" }
  $1 == "paper" { paper[$2] = $3; next }
  FILENAME == ARGV[2] { if ($1 == "device") print "PyTorch on ", $2; else peer[$1 FS $2] = $3; next }
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
    print "\n| rows of bench/tensor | us on paper | us | of it | PyTorch / ours |\n|---|---|---|---|---|"
    for (i = 1; i <= n; ++i) if (kind[i] == "row")
      printf "| %s | %.1f | %.1f | %.2f | %s |\n", name[i], paper[name[i]], value[i] * 1000, value[i] * 1000 / paper[name[i]], ratio(kind[i] FS name[i], value[i])
  }' "$scratch/paper" "$scratch/peer" "$scratch/ours"
exit $bad
