#!/bin/sh
# parity.sh SOURCE [PAGE]: every test that docs/parity.md says is ours, `folder/suite/case`, is in tests/folder: a source
# called suite_test.cpp that has the case (tests/house: a name of a CMakeLists.txt of tests).
cd "$1" || exit 1
page=${2:-docs/parity.md}
names=$(grep -o '`[a-z0-9_]*/[a-z0-9_]*\(/[a-z0-9_]*\)\{0,1\}`' "$page" | tr -d '`' | sort -u)
count=0 absent=0
for name in $names; do
  count=$((count + 1))
  folder=${name%%/*} rest=${name#*/}
  if [ "$folder" = house ]; then
    grep -q "NAME $name\$\|NAME $name " tests/house/CMakeLists.txt && continue
  else
    source=$(find "tests/$folder" -name "${rest%%/*}_test.cpp" 2>/dev/null)
    [ -n "$source" ] && grep -q "_TEST_CASE(${rest#*/}[,)]" $source && continue
  fi
  echo "no test is called $name"
  absent=$((absent + 1))
done
echo "$count tests are named on $page, $absent are not there"
[ "$count" -gt 0 ] && [ "$absent" = 0 ]
