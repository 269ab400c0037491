#!/usr/bin/env bash
# Makes the starter tree of the course (docs/course.md): scripts/course.sh FOLDER [--solution]. Each task has its test
# and one of the library's sources with a hole between the lines "// task N: ..." and "// end of task". With --solution,
# the sources have no holes; CI tests this tree.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
folder=$1 solution=${2:-}
cd "$(dirname "$0")/.."
mkdir -p "$folder"
cp examples/course/course.h "$folder"
checkout=$(sed 's/[&|\\]/\\&/g' <<<"$PWD")  # escaped for sed's replacement
sed "s|@CHECKOUT@|$checkout|" examples/course/CMakeLists.txt >"$folder/CMakeLists.txt"
for test in examples/course/*.cpp; do
  task=$(basename "$test" .cpp | sed 's/_.*//')
  source=$(grep -lE "^ *// task $task: " -r tensor autograd nn data rpc dist --include='*.cpp')
  mkdir -p "$folder/$task"
  cp "$test" "$folder/$task/test.cpp"
  if [ "$solution" = --solution ]; then
    cp "$source" "$folder/$task/"
    continue
  fi
  # Never overwrite a student's work.
  [ ! -e "$folder/$task/$(basename "$source")" ] || { echo "$folder/$task already exists" >&2; exit 1; }
  awk -v task="$task" '
    BEGIN { print "#include \"tendril/tensor/error.h\"  // for the exception that the hole throws" }
    $0 ~ "^ *// task " task ": " {
      hole = 1
      text = $0
      sub(/^ *\/\/ task [0-9.]+: /, "", text)
      print
      print "  throw ::tendril::Error(\"task " task " is still to be written: " text "\");"
      next
    }
    hole && /^ *\/\/ end of task/ { hole = 0; ++holes }
    !hole { print }
    END { if (holes != 1 || hole) exit 1 }
  ' "$source" >"$folder/$task/$(basename "$source")" || { echo "$source: expected one hole for task $task" >&2; exit 1; }
done
echo "$(ls -d "$folder"/*/ | wc -l) tasks in $folder"
