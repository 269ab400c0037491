#!/usr/bin/env bash
# Fetches NVIDIA's cudnn-frontend (headers only, MIT licence) with pip: scripts/get_cudnn_frontend.sh [FOLDER]. Tendril
# uses it for cuDNN's graphs: fused attention, and convolutions fused with later operations. CMake finds it in
# build/cudnn-frontend; for another folder, use -DCUDNN_FRONTEND_ROOT=FOLDER. Without it, Tendril builds and uses other
# kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.32.0
folder=${1:-build/cudnn-frontend}
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT
python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$downloads" "nvidia-cudnn-frontend==$version"
mkdir -p "$folder"
# A wheel is a zip file, and Python can always read those.
python3 - "$downloads"/*.whl "$folder" <<'EOF'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("include/")])
EOF
echo "$folder/include: cudnn-frontend $version"
