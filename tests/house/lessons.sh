#!/usr/bin/env bash
# The lessons of the examples are no longer than PyTorch's tutorials: code lines without blanks and comments.
#   tests/house/lessons.sh SOURCE
# What measures, draws, prints or reads flags stands elsewhere, or is named here, and what is learnt in place of the
# tutorial's model is in variants/: another file is a part of the lesson until somebody says that it is beside it. A lesson includes by path, so that its reader sees what is another folder's.
set -euo pipefail
cd "${1:?usage: lessons.sh SOURCE}/examples"
status=0

# A flag that several programs have is made in one place, support/flags.cpp. Prints "flag: files" of the others.
for file in support/flags.* */options.cpp support/*/options.cpp */main.cpp; do
  [ -f "$file" ] || continue
  tr -d '\n' <"$file" | grep -oE '\badd(_output|_flag|_option|_option_function<[a-z:]+>)?\( *"--[a-z-]+' |
    sed "s|.*\"\(--.*\)|\1 $file|" | sort -u || true
done | awk '{ files[$1] = files[$1] " examples/" $2; ++count[$1] }
  END { for (flag in count) if (count[flag] > 1) { print flag " is made twice:" files[flag]; bad = 1 } exit bad }' || status=1

# lesson FOLDER LIMIT [files beside the lesson...]
lesson() {
  local folder=$1 limit=$2 count beside file include
  shift 2
  for beside in "$@"; do
    [ -f "$folder/$beside" ] || { echo "examples/$folder/$beside is not there"; status=1; }
  done
  count=$(find "$folder" ! -path '*/variants/*' \( -name '*.h' -o -name '*.cpp' \) | grep -vxF "$(printf "$folder/%s\n" "$@")" | xargs cat |
    awk '{ sub(/\/\/.*/, "") } NF { ++n } END { print n + 0 }')
  echo "examples/$folder: $count code lines, expected 1 to $limit"
  [ "$count" -ge 1 ] && [ "$count" -le "$limit" ] || status=1
  while IFS=: read -r file include; do
    [ -f "$(dirname "$file")/$include" ] || { echo "examples/$file: no such file by its path: \"$include\""; status=1; }
  done < <(grep -oE '^#include "[^"]+' $(find "$folder" -name '*.h' -o -name '*.cpp') /dev/null | sed 's/#include "//')
}

lesson cartpole 150
lesson language_model 115
lesson resnet50_pipeline 190
exit $status
