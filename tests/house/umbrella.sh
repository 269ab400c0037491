#!/usr/bin/env bash
# umbrella.sh COMPILER INCLUDE_DIR LINES [HEADER]: checks that a program that includes <tendril/tendril.h> (or HEADER)
# compiles, includes no internal header (kernels, drivers, oneDNN, Asio), and has at most LINES lines after
# preprocessing. Unlike the compile time, the number of lines does not depend on the load of the machine.
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
  echo "<$header> includes the internal headers above"
  exit 1
fi
$compiler -std=c++20 -I"$include" -E -P "$folder/main.cpp" >"$folder/preprocessed"
lines=$(grep -c . "$folder/preprocessed")
echo "a program that includes <$header>: $lines lines after preprocessing"
if [ "$lines" -gt "$limit" ]; then
  echo "expected at most $limit lines"
  exit 1
fi
$compiler -std=c++20 -I"$include" -fsyntax-only "$folder/main.cpp"
