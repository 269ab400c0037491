# Sourced by the scripts beside it: which PyTorch to compare with, and what to say of one that does not run.

# peers: the Python interpreters that have PyTorch, one a line, each version once. TENDRIL_PYTORCH names them, separated by
# spaces (a virtual environment's bin/python, say); by default those called python3 in PATH and Debian's.
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

# failure FILE...: why a peer printed no figures: the last line that it wrote, to any of the files.
failure() { cat "$@" | sed '/^[[:space:]]*$/d' | tail -1 | tr '|' '/' | cut -c1-160; }

# figure FILE LABEL: the rest of the line that starts with LABEL, a sed pattern.
figure() { sed -n "s/^ *$2  *//p" "$1" | head -1; }

ratio() { awk "BEGIN { printf \"%.1f\", $1 / $2 }"; }

# build_libtorch_peer PYTHON PROGRAM: pytorch/ops.cpp with the LibTorch that belongs to that Python's PyTorch. Prints why where it fails.
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
