#!/usr/bin/env bash
# Reports the compiler's results for the CUDA kernels, without a device. Reads the objects of a build for one
# architecture.
#   scripts/cuda_report.sh BUILD_FOLDER [PAGE]    rewrites the table between the marks in PAGE
#   scripts/cuda_report.sh FILE                   checks the facts from an earlier run (kept by TENDRIL_CUDA_FACTS=FILE)
# Fails if a kernel needs more registers than its block size allows, more than 48 KiB of static shared memory, or more
# stack (spilled registers, arrays that do not fit in registers) than the 40 bytes of CUDA's own sin, cos, tan and pow,
# in files that call these. Also fails if a kernel whose template arguments call for 16-byte accesses has none.
# Occupancy is that of sm_90: 65,536 registers, 2,048 threads, 32 blocks and 227 KiB per multiprocessor. cuobjdump comes
# from TENDRIL_CUOBJDUMP, PATH or the toolkit, with nvdisasm beside it or in PATH; otherwise, both are installed from
# their Python packages into BUILD_FOLDER/cuda_tools. Exit status 3: no cuobjdump was found.
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: scripts/cuda_report.sh BUILD_FOLDER [PAGE]" >&2; exit 2; }
folder=$1 page=${2:-}
[ -z "$page" ] || grep -q '<!-- scripts/cuda_report.sh -->' "$page" || { echo "error: $page has no mark for the table" >&2; exit 2; }

find_cuobjdump() {
  local one tools=$folder/cuda_tools
  for one in "${TENDRIL_CUOBJDUMP:-}" "$(command -v cuobjdump || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/cuobjdump"; do
    [ -x "$one" ] || continue
    [ -x "$(dirname "$one")/nvdisasm" ] || command -v nvdisasm >/dev/null || continue
    echo "$one"
    return
  done
  [ -x "$tools/bin/pip" ] || python3 -m venv "$tools" >&2 || return
  timeout 120 "$tools/bin/pip" install -q --retries 1 --timeout 20 'nvidia-cuda-cuobjdump==13.*' 'nvidia-cuda-nvdisasm==13.*' >&2 || return
  find "$tools" -name cuobjdump -type f -perm -u+x | grep -m1 .
}
# Prints one line per kernel: mangled name, file, registers, stack, static shared memory, maximum number of threads, and
# the numbers of 16-byte loads and stores.
facts_of() {
  local object=$1
  {
    "$cuobjdump" -res-usage "$object" 2>/dev/null | sed 's/^/usage /'
    "$cuobjdump" -ptx "$object" 2>/dev/null | grep -E '\.entry|\.maxntid' | sed 's/^/ptx /'
    "$cuobjdump" -sass "$object" 2>/dev/null | grep -E 'Function :|LDG|STG' | sed 's/^/code /'
  } | awk -v file="$(basename "$object" .cu.o)" '
    function number(name) { return match($0, name ":[0-9]+") ? substr($0, RSTART + length(name) + 1, RLENGTH - length(name) - 1) : 0 }
    $1 == "usage" && $2 == "Function" { name = $3; sub(/:$/, "", name) }
    $1 == "usage" && /REG:/ { registers[name] = number("REG"); stack[name] = number("STACK") + number("LOCAL"); shared[name] = number("SHARED") }
    $1 == "ptx" && /\.entry/ { name = $0; sub(/.*\.entry /, "", name); sub(/\(.*/, "", name) }
    $1 == "ptx" && /\.maxntid/ { threads[name] = 1; for (i = 3; i <= NF; ++i) threads[name] *= $i + 0 }
    $1 == "code" && /Function :/ { name = $NF }
    $1 == "code" && /LDG[^ ]*\.128/ { ++loads[name] }
    $1 == "code" && /STG[^ ]*\.128/ { ++stores[name] }
    END { for (name in registers) print name, file, registers[name], stack[name], shared[name], threads[name] + 0, loads[name] + 0, stores[name] + 0 }'
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
facts=${TENDRIL_CUDA_FACTS:-$scratch/facts}
if [ -f "$folder" ]; then
  facts=$folder
else
  cuobjdump=$(find_cuobjdump) || { echo "error: cuobjdump not found" >&2; exit 3; }
  PATH="$(dirname "$cuobjdump"):$PATH"  # cuobjdump needs nvdisasm, which is beside it
  mapfile -t objects < <(find "$folder" -name '*.cu.o' | sort)
  [ ${#objects[@]} -gt 0 ] || { echo "error: no *.cu.o in $folder" >&2; exit 2; }
  export -f facts_of
  export cuobjdump
  printf '%s\0' "${objects[@]}" | xargs -0 -P "$(nproc)" -I '{}' bash -euo pipefail -c 'facts_of "$1" >"$2/$(basename "$1").facts"' _ '{}' "$scratch"
  cat "$scratch"/*.facts | c++filt -p | sed -E 's/tendril::(cuda::)?//g; s/\(anonymous namespace\)::|detail:://g' |
    awk '{ n = NF; name = $1; for (i = 2; i <= n - 7; ++i) name = name " " $i; print name "\t" $(n-6) "\t" $(n-5) "\t" $(n-4) "\t" $(n-3) "\t" $(n-2) "\t" $(n-1) "\t" $n }' |
    sort >"$facts"
fi

# Instances that process V elements of a type T at a time must move 16 bytes at once if V * sizeof(T) >= 16. Their
# template arguments determine this.
table=$(awk -F '\t' '
  function least(a, b) { return a < b ? a : b }
  function bytes(type) {
    sub(/^Input</, "", type); sub(/ *>$/, "", type)
    return type ~ /^(__half|__nv_bfloat16|(unsigned )?short)$/ ? 2 : type ~ /^(float|(unsigned )?int)$/ ? 4 : type ~ /^(double|(unsigned )?long)$/ ? 8 : type ~ /^(bool|unsigned char)$/ ? 1 : 0
  }
  # Stores the template arguments of a name in argument[1...] and returns their number.
  function arguments(name,  i, c, depth, n, text) {
    split("", argument)
    n = 0; depth = 0; text = ""
    for (i = index(name, "<") + 1; i > 1 && i <= length(name); ++i) {
      c = substr(name, i, 1)
      if (c == "<" || c == "(") ++depth
      if ((c == ">" && depth == 0) || (c == "," && depth == 0)) {
        gsub(/^ +| +$/, "", text); argument[++n] = text; text = ""
        if (c == ">") break
        continue
      }
      if (c == ">" || c == ")") --depth
      text = text c
    }
    return n
  }
  # Sets must_load and must_store, the minimum numbers of 16-byte loads and stores of an instance.
  function expect(kernel, n,  k) {
    must_load = must_store = 0
    if (kernel == "map_kernel" && argument[2] + 0 > 1) {  # F, V, K, Param, Out, In...
      must_store = bytes(argument[5]) * argument[2] >= 16
      for (k = 6; k <= n; ++k) must_load += bytes(argument[k]) * argument[2] >= 16
    } else if (kernel ~ /^(fold_rows|find_in_rows|softmax_long_rows|(normalise|differentiate|class_loss|cross_entropy_backward)_lines|sum_by_columns)$/) {  # V, T
      must_load = bytes(argument[2]) * argument[1] >= 16
      must_store = must_load && kernel !~ /^(fold_rows|find_in_rows|class_loss_lines|sum_by_columns)$/
    } else if (kernel == "fold_columns" || kernel == "softmax_short_rows") {  # V, accumulator or row, T
      must_load = bytes(argument[3]) * argument[1] >= 16
      must_store = must_load && kernel != "fold_columns"
    } else if (kernel ~ /^(sum_moments|sum_products|normalise|differentiate)$/) {  # T, V
      must_load = bytes(argument[1]) * argument[2] >= 16
      must_store = must_load && kernel !~ /^sum/
    } else if (kernel == "step_kernel") {  # parameter and gradient; the parameter
      must_load = 2; must_store = 1
    } else if (kernel == "gather_elements" || kernel == "copy_batch" || kernel == "flip") {
      must_load = must_store = argument[1] ~ /^(uint4|Pack<unsigned long, 2> *)$/
    }
  }
  $1 ~ /(^|void )cub::/ { next }  # kernels of CUB
  function fail(what) { print "error: " $1 " (" $2 ".cu): " what > "/dev/stderr"; ++bad }
  {
    kernel = $1; sub(/<.*/, "", kernel); sub(/^void /, "", kernel)
    key = $2 "\t" kernel
    registers = $3; stack = $4; shared = $5; threads = $6
    if (threads == 0) fail("no __launch_bounds__")
    given = int((registers + 7) / 8) * 8  # registers are allocated in multiples of eight per thread
    if (given * threads > 65536) fail(registers " registers times " threads " threads are more than 65,536")
    if (shared > 49152) fail(shared " bytes of static shared memory")
    if (stack > ($2 ~ /^(unary|gradient|random)$/ && kernel ~ /^(map_kernel|draw_kernel)$/ ? 40 : 0)) fail("a stack of " stack " bytes")
    expect(kernel, arguments($1))
    if ($7 < must_load) fail($7 " loads of 16 bytes, expected at least " must_load)
    if ($8 < must_store) fail($8 " stores of 16 bytes, expected at least " must_store)
    if (must_load || must_store) ++wide[kernel]
    blocks = threads ? least(32, int(2048 / threads)) : 0
    if (given * threads > 0) blocks = least(blocks, int(65536 / (given * threads)))
    blocks = least(blocks, int(232448 / (shared + 1024)))
    occupancy = 100 * blocks * threads / 2048
    if (!(key in count)) { keys[++number] = key; lowest[key] = 101 }
    ++count[key]
    if (registers > most[key]) most[key] = registers
    if (stack > deepest[key]) deepest[key] = stack
    if (shared > widest[key]) widest[key] = shared
    bound[key] = threads
    if (occupancy < lowest[key]) lowest[key] = occupancy
    if ($7 > 0) ++loading[key]
    if ($8 > 0) ++storing[key]
  }
  END {
    for (k = 1; k <= number; ++k) {
      split(keys[k], part, "\t")
      key = keys[k]
      printf "| `%s` | %s.cu | %d | %d | %d | %d%% | %d | %d | %d | %d |\n", part[2], part[1], count[key], bound[key], most[key], lowest[key], deepest[key], widest[key], loading[key], storing[key]
    }
    # Checks that such instances exist, because a renamed kernel would otherwise pass unchecked.
    split("map_kernel fold_rows find_in_rows fold_columns softmax_short_rows softmax_long_rows class_loss_lines cross_entropy_backward_lines step_kernel sum_moments normalise differentiate normalise_lines differentiate_lines sum_by_columns gather_elements", vectorised, " ")
    for (k in vectorised) if (!wide[vectorised[k]]) { print "error: no instance of " vectorised[k] " moves 16 bytes at once" > "/dev/stderr"; ++bad }
    print number " kernels, " NR " instances, " bad + 0 " findings" > "/dev/stderr"
    if (bad > 0) print "FAILED"
  }' "$facts")

head='| kernel | file | instances | threads | registers | occupancy | stack | shared | load 16 bytes | store 16 bytes |
|---|---|---|---|---|---|---|---|---|---|'
rows=$(grep -v '^FAILED$' <<<"$table")
if [ -n "$page" ]; then
  written=$(awk -v table="$head"$'\n'"$rows" '
    /<!-- scripts\/cuda_report.sh -->/ { print; print ""; print table; print ""; skipping = 1; next }
    /<!-- end -->/ { skipping = 0 }
    !skipping' "$page")
  printf '%s\n' "$written" >"$page"
else
  printf '%s\n%s\n' "$head" "$rows"
fi
! grep -q '^FAILED$' <<<"$table"
