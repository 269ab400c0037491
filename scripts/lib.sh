# Sourced by the other scripts in this folder: installs the dependencies, and configures and builds the project.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
[ -t 2 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '==> %s\n' "$*" >&2; }

# install_packages NAME...: installs missing packages. Queries dpkg first, so that a second run needs neither network
# nor root. On a distribution without dpkg, the packages must already be installed; configuring reports missing ones.
install_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || return 0
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "Installing with apt, which can take two minutes: ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# as_root COMMAND...: runs the command with sudo, unless the shell already runs as root.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || { printf 'error: this needs root. As root, run:\n  %s\n' "$*" >&2; exit 1; }
  sudo "$@"
}

install_dependencies() {
  local boost=  # empty: the default version, which is too old in Debian 12
  ! grep -q 'VERSION_ID="12"' /etc/os-release || boost=1.81
  install_packages g++ cmake ninja-build pkg-config "libboost$boost-dev" "libboost-test$boost-dev" "libboost-context$boost-dev" "libboost-json$boost-dev" zlib1g-dev libcli11-dev libssl-dev libspdlog-dev libdnnl-dev libpng-dev libjpeg-dev
}

# Looks for NVIDIA's toolkit, which is not a Debian package, in its usual places.
have_cuda_toolkit() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }

# configure PRESET [CMake arguments]: builds CUDA only if a device is present; pass -DTENDRIL_CUDA=ON to build it
# anyway.
configure() {
  local preset=$1 cuda=OFF
  shift
  if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then cuda=AUTO; fi
  local log="build/$preset/configure.log" asked="build/$preset/CXX" fresh=()
  mkdir -p "build/$preset"
  # CMake reads CXX only in a fresh build folder, so another compiler needs one.
  if [ -e "build/$preset/CMakeCache.txt" ] && [ "$(cat "$asked" 2>/dev/null)" != "${CXX:-}" ]; then fresh=(--fresh); fi
  echo "${CXX:-}" >"$asked"
  cmake --preset "$preset" "${fresh[@]}" -DTENDRIL_CUDA=$cuda "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

# build PRESET [targets...]: builds all or the given targets.
build() {
  local preset=$1
  shift
  local targets=()
  [ $# -gt 0 ] && targets=(--target "$@")
  cmake --build "build/$preset" -j "$(nproc)" "${targets[@]}"
}

# find_python MODULES [PYTHONS]: prints the first of PYTHONS that has all MODULES (both are lists of words). Default
# PYTHONS: those in TENDRIL_PYTHON and TENDRIL_PYTORCH, then python3 in PATH and Debian's. Imports nothing. Fails if
# none has the modules.
find_python() {
  local python
  for python in ${2:-${TENDRIL_PYTHON:-} ${TENDRIL_PYTORCH:-} python3 /usr/bin/python3}; do
    # shellcheck disable=SC2086  # modules are words
    "$python" -c 'import importlib.util, sys; sys.exit(any(importlib.util.find_spec(m) is None for m in sys.argv[1:]))' $1 2>/dev/null &&
      echo "$python" && return
  done
  return 1
}

# find_torch [PYTHON]: prints the given Python, or the first one that has PyTorch.
find_torch() {
  find_python torch "${1:-}" && return
  echo "error: no PyTorch in ${1:-TENDRIL_PYTHON, TENDRIL_PYTORCH, python3 or /usr/bin/python3}; name a Python that has it" >&2
  return 1
}
