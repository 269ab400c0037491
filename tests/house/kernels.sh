#!/usr/bin/env bash
# kernels.sh FOLDER: every CUDA kernel below it states the most threads that it is started with (__launch_bounds__, without which the
# compiler may give it more registers than such a block has), and no type has two definitions in its headers (two that a program
# includes in different files would be one type with two meanings).
folder=$1
bad=0
kernels=0
while IFS= read -r file; do
  # A kernel's head may go over two lines.
  while IFS= read -r head; do
    kernels=$((kernels + 1))
    [[ $head == *__launch_bounds__* ]] || { echo "${file#"$folder"/}: a kernel without __launch_bounds__: $head"; bad=$((bad + 1)); }
  done < <(grep -h -A1 '^ *__global__' "$file" | tr '\n' ' ' | sed 's/__global__/\n__global__/g' | grep '^__global__')
done < <(find "$folder" -name '*.cu' -o -name '*.cuh')
twice=$(find "$folder" -name '*.cuh' -o -name '*.h' | xargs grep -hoE '^(struct|class)( alignas\([^{]*\))? [A-Za-z_]+ *(final *)?(:[^:].*)?\{' | sed -E 's/^(struct|class) //; s/alignas\(.*\) //; s/[ :{].*//' | sort | uniq -d)
for name in $twice; do
  echo "two definitions of $name"
  bad=$((bad + 1))
done
echo "$kernels kernels, $bad findings"
[ "$bad" -eq 0 ] && [ "$kernels" -gt 0 ]
