#!/usr/bin/env bash
# Packs the files of Debian's packages that a build of Tendril includes and links, for a machine that has a compiler,
# CMake and CUDA but no network. There, run TENDRIL_CARRIED=FILE scripts/gpu_check.sh.
#   scripts/gpu_carry.sh FILE.tar.gz
# The archive has only the Boost libraries that Tendril uses, and cudnn-frontend's headers if
# scripts/get_cudnn_frontend.sh has fetched them. Both machines must have the same processor architecture and a similar
# libc version.
source "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] && [[ $1 == *.tar.gz ]] || { echo "usage: scripts/gpu_carry.sh FILE.tar.gz" >&2; exit 2; }
[ -z "$(declare -F install_dependencies)" ] || install_dependencies
wanted='libboost[a-z-]*1\.81|zlib1g|libcli11|libssl|libspdlog|libfmt|libdnnl|libpng|libjpeg62|ninja-build'
archive=$(realpath -m "$1") plain=$(mktemp)
trap 'rm -f "$plain"' EXIT
mapfile -t packages < <(dpkg-query -W -f='${db:Status-Abbrev} ${binary:Package}\n' | awk '$1 == "ii" { print $2 }' | grep -E "^($wanted)")
[ ${#packages[@]} -gt 0 ] || { echo "error: none of the packages is installed" >&2; exit 1; }
# Keeps symbolic links as links, and leaves folders out.
dpkg -L "${packages[@]}" | grep -E '^/usr/(include|lib|bin|share/cmake)/' | grep -vE '/(python|doc|mpi4py)|libboost_[a-z_]*\.a$|/libdnnl\.a$' | sort -u |
  while IFS= read -r file; do if [ -f "$file" ] || [ -L "$file" ]; then printf '%s\n' "${file#/}"; fi; done |
  tar -C / -cf "$plain" --no-recursion -T -
with=without
if [ -f build/cudnn-frontend/include/cudnn_frontend.h ]; then
  tar -C build/cudnn-frontend -rf "$plain" --transform 's|^include|usr/include|' include
  with=with
fi
gzip <"$plain" >"$archive"
echo "$archive: $(du -h "$archive" | cut -f 1), of ${#packages[@]} packages, $with cudnn-frontend"
