#!/bin/sh
# versions.sh SOURCE: whatever says the project's version says that of CMakeLists.txt, and dist/ counts as source.
cd "$1" || exit 1
status=0
version=$(sed -n 's/^project(tendril VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
for said in "CITATION.cff:version: $version" "conanfile.py:    version = \"$version\"" "include/tendril/version.h:#define TENDRIL_VERSION \"$version\"" "packaging/vcpkg/tendril/vcpkg.json:  \"version-semver\": \"$version\","; do
  grep -qxF "${said#*:}" "${said%%:*}" || { echo "${said%%:*} does not say ${said#*:}"; status=1; }
done
if [ -e .git ]; then
  [ "$(git check-attr linguist-generated -- dist/optimizer.h)" = "dist/optimizer.h: linguist-generated: unset" ] ||
    { echo ".gitattributes: dist/ is generated"; status=1; }
fi
echo "version $version"
[ -n "$version" ] && exit $status
