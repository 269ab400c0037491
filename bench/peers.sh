# Sourced by the other scripts in this folder: finds the PyTorch installations to compare with, and reports failures.

# peers: prints the Python interpreters that have PyTorch, one per line, each PyTorch version once. TENDRIL_PYTORCH
# lists them, separated by spaces (for example a virtual environment's bin/python). Default: python3 in PATH and
# Debian's.
peers() {
  local python version seen=" "
  for python in ${TENDRIL_PYTORCH:-python3 /usr/bin/python3}; do
    version=$(torch_version "$python") || { [ -z "${TENDRIL_PYTORCH:-}" ] || echo "warning: $python has no PyTorch" >&2; continue; }
    [[ $seen == *" $version "* ]] && continue
    seen+="$version "
    echo "$python"
  done
}

torch_version() { "$1" -c 'import torch; print(torch.__version__)' 2>/dev/null; }

# failure FILE...: prints the last line that a failed peer wrote to any of the files.
failure() { cat "$@" | sed '/^[[:space:]]*$/d' | tail -1 | tr '|' '/' | cut -c1-160; }

# figure FILE LABEL: prints the rest of the line that starts with LABEL, a sed pattern.
figure() { sed -n "s/^ *$2  *//p" "$1" | head -1; }

# measure FILE LABEL COMMAND...: runs a program and appends its figure with that label to FILE.all; its output goes to
# FILE, its errors to FILE.errors. If it fails or prints no figure, creates FILE.failed; later calls for FILE do nothing.
measure() {
  local file=$1 label=$2 value
  shift 2
  [ ! -e "$file.failed" ] || return 0
  if "$@" >"$file" 2>"$file.errors" && value=$(figure "$file" "$label") && [ -n "$value" ]; then
    echo "$value" >>"$file.all"
  else
    touch "$file.failed"
  fi
}
# check_ours FILE: if Tendril's program has failed, prints its output and ends the script.
check_ours() { [ ! -e "$1.failed" ] || { cat "$1" "$1.errors" >&2; exit 1; }; }
check_runs() { [[ $1 =~ ^[1-9][0-9]*$ ]] || { echo "error: RUNS: expected a positive number, got '$1'" >&2; exit 2; }; }

# median FILE: prints the median of the figures that measure appended. spread FILE: prints "median [minimum..maximum]",
# with commas between thousands.
median() {
  [ ! -e "$1.all" ] || sort -g "$1.all" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }' OFMT=%.10g
}
spread() {
  echo "$(median "$1") [$(sort -g "$1.all" | sed -n '1p;$p' | paste -sd' ' | sed 's/ /../')]" |
    sed -E ':again; s/(^|[^0-9.])([0-9]+)([0-9]{3})($|[^0-9])/\1\2,\3\4/; t again; s/(\.\.)([0-9]+)([0-9]{3})($|[^0-9])/\1\2,\3\4/; t again'
}

ratio() { awk "BEGIN { printf \"%.1f\", $1 / $2 }"; }

# build_libtorch_peer PYTHON PROGRAM: builds pytorch/ops.cpp with the LibTorch of that Python's PyTorch. If it fails,
# prints the reason.
build_libtorch_peer() {
  local here flags
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  flags=$("$1" - <<'PYTHON'
import torch
from torch.utils import cpp_extension
print(*(f"-isystem {path}" for path in cpp_extension.include_paths()), f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}")
print(*(f"-L{path} -Wl,-rpath,{path}" for path in cpp_extension.library_paths()))
PYTHON
  ) || return 1
  mkdir -p "$(dirname "$2")"
  # shellcheck disable=SC2086  # flags are words
  g++ -std=c++20 -O2 "$here/pytorch/ops.cpp" $flags -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10 -o "$2" 2>&1 | grep -m1 error && return 1
  return 0
}
