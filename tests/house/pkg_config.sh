#!/bin/sh
# pkg_config.sh PREFIX CXX SOURCE: pkg-config alone says how to compile and link SOURCE with what is in PREFIX; it runs.
prefix=$1 cxx=$2 source=$3
set -e
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tendril.pc)")
export PKG_CONFIG_PATH
program=$(mktemp)
trap 'rm -f "$program"' EXIT
pkg-config --modversion --cflags --libs tendril
"$cxx" -std=c++20 "$source" $(pkg-config --cflags --libs tendril) -o "$program"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir tendril) "$program"
