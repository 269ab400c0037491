#!/usr/bin/env bash
# The image of deploy/Containerfile installs every library that the CartPole example is linked with.
source "$(dirname "$0")/lib.sh"
for tool in dpkg-query readelf ldd; do
  command -v "$tool" >/dev/null || skip "$tool is not installed: no Debian?"
done
grep -q 'VERSION_ID="12"' /etc/os-release || skip "the image is of Debian 12, whose packages have other names here"
file=$here/../../deploy/Containerfile
slim=$(sed -n '/^FROM .*slim/,$p' "$file")
missing=()
for library in $(readelf -d "$cartpole" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
  [[ $library != ld-linux* ]] || continue
  path=$(ldd "$cartpole" | awk -v name="$library" '$1 == name { print $3 }')  # /lib may be /usr/lib
  package=$(dpkg-query -S "*/$(basename "$(dirname "$path")")/$library" 2>/dev/null | head -n 1 | cut -d: -f1 || true)
  case $package in
    "") skip "$library belongs to no package here" ;;
    libc6 | libgcc-s1 | libstdc++6 | zlib1g) ;;  # of apt and dpkg themselves
    *) grep -qw -- "$package" <<<"$slim" || missing+=("$package ($library)") ;;
  esac
done
[ ${#missing[@]} -eq 0 ] || { echo "failed: deploy/Containerfile does not install ${missing[*]}"; exit 1; }
