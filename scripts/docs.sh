#!/usr/bin/env bash
# The reference of the public headers as a site: scripts/docs.sh [FOLDER], by default out/docs. A public name without a
# line of documentation is an error. scripts/docs.sh --check makes no site.
source "$(dirname "$0")/lib.sh"
install_packages doxygen
folder=out/docs html=YES
[ "${1:-}" != --check ] || html=NO
[ -z "${1:-}" ] || [ "$1" = --check ] || folder=$1
mkdir -p "$folder"
# Those of cmake/TendrilUmbrella.cmake: what <tendril/tendril.h> includes.
left_out='/(detail|cuda|cpu|drivers)/|^rpc/.+/'
left_out+='|^tensor/(kernels|view|optim_step|scalar_math|raw|ref|geometry|layout|memory|philox)\.h'
left_out+='|^autograd/(accumulate_grad|history|saved)\.h|^dist/autograd/(pass_.*|container|nodes)\.h'
headers=$(git ls-files '*.h' | grep -E '^(tensor|autograd|nn|data|rpc|dist|envs)/' | grep -vE "$left_out")
pages=$([ $html = NO ] || git ls-files README.md 'docs/*.md')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{
  cat docs/Doxyfile
  echo "INPUT = ${headers//$'\n'/ } tensor/cuda/runtime.h ${pages//$'\n'/ }"
  echo "OUTPUT_DIRECTORY = $folder"
  echo "GENERATE_HTML = $html"
  echo "GENERATE_XML = $([ $html = NO ] && echo YES || echo NO)"
  echo "WARN_LOGFILE = $log"
} | doxygen - >/dev/null
# Left out, for a line would say what the name says: what the compiler could have made (constructors, destructors,
# assignments), overrides, whose base says it, begin() and end(), deduction guides, specialisations; members that are
# data; and headers that users do not call, which the umbrella has because templates need them.
internal='^(autograd/(node|engine)\.h|rpc/(lazy_stop|executor|message_hook|call_context|future_scope|default_agent)\.h)'
sed "s|$PWD/||" "$log" | grep -E '^[^ ]+\.h:.*(\(function\)|Compound|\(enumeration\))' | grep -vE "$internal" |
  grep -vE 'Member (begin|end|min|max)\(|Member operator| override | -> |Compound [^ ]*<|Member ~' |
  grep -vE 'Member ([A-Za-z0-9]+)\(.* of (class|struct) ([A-Za-z_:]+::)?\1(<.*>)? is' |
  grep -vE 'OptimizerOf<|AdamOf<|Member (explicit )?(Pair|Triple)Loss\(' | sort -u | tee "$folder/warnings" || true
undocumented=$(wc -l <"$folder/warnings")
echo "$(wc -w <<<"$headers") headers, $undocumented undocumented"
[ "$undocumented" -eq 0 ]
