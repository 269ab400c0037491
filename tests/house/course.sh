#!/bin/sh
# course.sh SOURCE PREFIX CXX: in the course's starter tree every task's test fails and says what is to be written; with the
# library's own lines in the holes all pass.
source=$1 prefix=$2 cxx=$3
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for tree in starter solution; do
  option=
  [ $tree = starter ] || option=--solution
  "$source/scripts/course.sh" "$folder/$tree" $option
  cmake -S "$folder/$tree" -B "$folder/$tree/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_PREFIX_PATH="$prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
  cmake --build "$folder/$tree/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
done
tasks=0
for task in "$folder"/starter/*/test.cpp; do
  task=$(basename "$(dirname "$task")")
  tasks=$((tasks + 1))
  ! ctest --test-dir "$folder/starter/build" -L "^task$task\$" --no-tests=error --output-on-failure >"$folder/log" ||
    { echo "task $task passes with its hole"; exit 1; }
  grep -q " \.\.\. FAIL$" "$folder/log" && grep -q "task $task is still to be written: " "$folder/log" ||
    { echo "task $task does not say what is to be written:"; cat "$folder/log"; exit 1; }
done
ctest --test-dir "$folder/solution/build" --no-tests=error --output-on-failure
[ "$tasks" -ge 12 ]
