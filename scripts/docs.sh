#!/usr/bin/env bash
# Builds the book and the reference of the public headers as a site: scripts/docs.sh [FOLDER], default out/docs.
# Fails for a public name without documentation, a page that is not in the book, a dead link, or a missing picture.
# scripts/docs.sh --check only checks the names and builds no site.
source "$(dirname "$0")/lib.sh"
install_packages doxygen python3
folder=out/docs html=YES
[ "${1:-}" != --check ] || html=NO
[ -z "${1:-}" ] || [ "$1" = --check ] || folder=$1
[ $html = NO ] || install_packages python3-sphinx python3-myst-parser
[ "$html" = NO ] || [ "$folder" != out/docs ] || rm -rf "$folder"  # pages of files that are gone would stay
mkdir -p "$folder"
headers=$(sed -n 's|^#include "tendril/\(.*/.*\)"|\1|p' include/tendril/tendril.h)
awk -f scripts/docs_filter.awk tensor/tensor.h >/dev/null  # Doxygen ignores a failing filter
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
  cat docs/Doxyfile
  echo "INPUT = docs/reference.md ${headers//$'\n'/ }"
  echo "OUTPUT_DIRECTORY = $folder"
  echo "GENERATE_HTML = $html"
  echo "GENERATE_XML = YES"
  echo "WARN_LOGFILE = $log"
} | doxygen - >/dev/null
# Ignores members that need no documentation: a class's constructors, destructors and assignments, deduction guides,
# specialisations, and overrides, which the base class documents.
sed "s|$PWD/||" "$log" | grep -E '^[^ ]+\.h:.*(\((function|variable|typedef|enumeration)\)|Compound)' |
  grep -vE 'Member value .* of struct .*DTypeOf| override | -> |Compound [^ ]*<|Member ~' |
  grep -vE 'Member operator=\((const )?([A-Za-z0-9]+) &.* of (class|struct) ([A-Za-z_:]+::)?\2(<.*>)? is' |
  grep -vE 'Member ([A-Za-z0-9]+)\(.* of (class|struct) ([A-Za-z_:]+::)?\1(<.*>)? is' |
  grep -vE 'OptimizerOf<|AdamOf<|Member (explicit )?(Pair|Triple)Loss\(' | sort -u | tee "$folder/warnings" || true
values=$(/usr/bin/python3 scripts/undocumented_values.py "$folder/xml")
grep -v '^$' <<<"$values" | tee -a "$folder/warnings" || true
rm -rf "$folder/xml"
undocumented=$(wc -l <"$folder/warnings")
echo "$(wc -w <<<"$headers") headers, $undocumented undocumented"
if [ $html = YES ]; then
  book=$(mktemp -d)
  trap 'rm -rf "$log" "$book"' EXIT
  /usr/bin/python3 scripts/book.py prepare "$book"
  /usr/bin/python3 -m sphinx -q -W --keep-going -c docs -d "$book/.doctrees" "$book" "$folder"
  echo '<!DOCTYPE html><title>Tendril</title><meta http-equiv="refresh" content="0; url=docs/book.html">' >"$folder/index.html"
  /usr/bin/python3 scripts/book.py check "$folder"
fi
[ "$undocumented" -eq 0 ]
