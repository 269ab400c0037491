#!/bin/sh
# rpm_package.sh CPACK CONFIG CXX SOURCE: the RPM package is made, names what it needs, and a program that is built with
# what was unpacked from it runs.
cpack=$1 config=$2 cxx=$3 source=$4
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cpack" -G RPM --config "$config" -B "$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
package=$(ls "$folder"/*.rpm)
rpm -qip "$package"
for name in boost-devel openssl-devel; do
  rpm -qp --requires "$package" | grep -qx "$name" || { echo "it does not require $name"; exit 1; }
done
! rpm -qlp "$package" | grep -xE '/usr/lib(64)?(/cmake|/pkgconfig)?' || { echo "it owns folders of others"; exit 1; }
mkdir "$folder/root"
rpm2cpio "$package" | (cd "$folder/root" && cpio --extract --make-directories --quiet)
PKG_CONFIG_PATH=$(dirname "$(find "$folder/root" -name tendril.pc)")
export PKG_CONFIG_PATH
"$cxx" -std=c++20 "$source" $(pkg-config --cflags --libs tendril) -o "$folder/program"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tendril) "$folder/program"
