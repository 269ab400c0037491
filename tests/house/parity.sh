#!/usr/bin/env bash
# parity.sh SOURCE [PAGE]: every test that docs/parity.md says is ours, `folder/suite/case`, is in tests/folder: a
# source called suite_test.cpp that has the case (tests/house: a name of a CMakeLists.txt of tests). And where the page
# says how many names of theirs it has ("N different names"), it has so many.
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
classes='WireSerialize|TensorpipeSerialize|DistAutogradTest|TestE2ETensorPipe'
theirs=$(grep -oE "\`(test_|$classes)[A-Za-z0-9_.{},]*\`" "$page" | tr -d '`' |
  while read -r name; do eval "printf '%s\n' $name"; done | sort -u | wc -l)  # letters, dots, braces: nothing to run
said=$(sed -n 's/.* \([0-9]*\) different names.*/\1/p' "$page")
echo "$theirs of theirs, the page says ${said:-nothing}"
[ "$count" -gt 0 ] && [ "$absent" = 0 ] && [ "${said:-$theirs}" = "$theirs" ]
