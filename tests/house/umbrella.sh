#!/usr/bin/env bash
# umbrella.sh COMPILER INCLUDE_DIR SECONDS [HEADER]: a program of two lines that includes <tendril/tendril.h> (or HEADER) reads no
# header of kernels, drivers, oneDNN or Asio, and takes at most SECONDS of the processor (not of the clock) to compile,
# in the best of three runs.
set -euo pipefail
compiler=$1 include=$2 limit=$3 header=${4:-tendril/tendril.h}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/main.cpp" <<EOF
#include <$header>
int main() { return tendril::zeros({2, 2}).sum().item<float>() == 0 ? 0 : 1; }
EOF
$compiler -std=c++20 -I"$include" -M "$folder/main.cpp" >"$folder/read"
if grep -oE 'tendril/tensor/(cpu|drivers)/[^ ]*|tendril/tensor/(kernels|optim_step|raw)\.h|[^ ]*(dnnl|oneapi/|boost/asio|boost/json|openssl/|spdlog/)[^ ]*' "$folder/read"; then
  echo "<$header> includes the above, which no program needs"
  exit 1
fi
TIMEFORMAT='%U %S'
best=
for _ in 1 2 3; do
  { time $compiler -std=c++20 -O0 -I"$include" -c "$folder/main.cpp" -o "$folder/main.o"; } 2>"$folder/time" || { cat "$folder/time"; exit 1; }
  took=$(awk 'END { print $1 + $2 }' "$folder/time")
  echo "a program that includes <$header>: $took s of the processor"
  if [ -z "$best" ] || awk "BEGIN { exit !($took < $best) }"; then best=$took; fi
  if awk "BEGIN { exit !($best <= $limit) }"; then exit 0; fi
done
echo "expected at most $limit s"
exit 1
