#!/bin/sh
# conan.sh CONAN SOURCE: conan create makes the package of SOURCE with the system's Boost and others in place of recipes,
# and builds and runs a program with it. In a home of its own: no setting, remote or cache of the user's counts.
conan=$1 source=$2
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CONAN_HOME="$folder/home"
"$conan" profile detect >"$folder/log" 2>&1
"$conan" remote remove '*' >>"$folder/log" 2>&1
"$conan" create "$source" -pr "$source/packaging/conan/system.profile" -tf "$source/packaging/conan/test_package" \
  -s build_type=Debug -c tools.cmake.cmaketoolchain:generator=Ninja -c tools.build:cxxflags="['-O0', '-g0']" \
  >>"$folder/log" 2>&1 || { tail -60 "$folder/log"; exit 1; }
tail -5 "$folder/log"
