#!/bin/sh
# debian_package.sh CPACK CONFIG CXX SOURCE: the Debian package is made, holds what a user needs, and a program that is
# built with what was unpacked from it runs.
cpack=$1 config=$2 cxx=$3 source=$4
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cpack" -G DEB --config "$config" -B "$folder" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
package=$(ls "$folder"/*.deb)
dpkg-deb --info "$package"
dpkg-deb --info "$package" | grep -q 'Depends: libboost.*libssl-dev' || { echo "its dependencies are missing"; exit 1; }
dpkg-deb --contents "$package" >"$folder/contents"
for file in include/tendril/tendril.h include/tendril/dist/optimizer.h lib/cmake/tendril/tendrilConfig.cmake \
  lib/cmake/tendril/tendrilTargets.cmake lib/pkgconfig/tendril.pc lib/libtendril_tensor lib/libtendril_dist; do
  name=$(echo "$file" | sed 's:^lib/:lib.*/:')  # /usr/lib, lib64 or lib/<architecture>
  grep -q " \./usr/$name" "$folder/contents" || { echo "not in the package: $file"; exit 1; }
done
dpkg-deb --extract "$package" "$folder/root"
PKG_CONFIG_PATH=$(dirname "$(find "$folder/root" -name tendril.pc)")
export PKG_CONFIG_PATH
"$cxx" -std=c++20 "$source" $(pkg-config --cflags --libs tendril) -o "$folder/program"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tendril) "$folder/program"
