#!/usr/bin/env bash
# Builds an example and runs it:
#   scripts/demo.sh                            CartPole: an agent and two observers
#   scripts/demo.sh language_model --epochs 3  another example, with its flags
#   scripts/demo.sh tutorial/03                a chapter of the tutorial
#   scripts/demo.sh apps/transformer           an application
source "$(dirname "$0")/lib.sh"
chapters=(examples/tutorial/*.cpp)
chapters=("${chapters[@]#examples/}") chapters=("${chapters[@]%%_*}")
apps=(examples/apps/*/main.cpp)
apps=("${apps[@]#examples/}") apps=("${apps[@]%/main.cpp}") apps=("${apps[@]/apps\/support}")
examples=(cartpole language_model resnet50_pipeline hello_rpc "${chapters[@]}" ${apps[@]})

usage() {
  echo "usage: scripts/demo.sh [EXAMPLE] [flags of the example]"
  echo "examples: ${examples[*]} (default: ${examples[0]})"
  echo "scripts/demo.sh EXAMPLE --help lists the flags of EXAMPLE; hello_rpc and the tutorial have none."
  echo "The script installs missing packages."
}

example=${examples[0]}
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) ;;
  "") [ $# -eq 0 ] || { echo "error: EXAMPLE: expected a name, got an empty string" >&2; usage >&2; exit 2; } ;;
  *) example=$1; shift ;;
esac
[[ " ${examples[*]} " == *" $example "* ]] || { echo "error: there is no example '$example'" >&2; usage >&2; exit 2; }
# Without flags, run what takes seconds instead of minutes.
case "$example $*" in
  "resnet50_pipeline ") set -- --width 8 --image-size 32 --batch-size 16 ;;
  "apps/resnet50_pipeline ") set -- --tiny ;;
esac
name=${example##*/}
case $example in
  tutorial/*) program=(examples/tutorial/"$name"_*.cpp) program=${program[0]%.cpp} target=tutorial_${program##*/} ;;
  apps/*) target=$name
    [ ! -d "examples/$name" ] || target=${name}_app
    program=examples/$example/$target ;;
  *) program=examples/$example/$name target=$name ;;
esac

install_dependencies
say "Building $example"
configure dev
build dev "$target"
say "Running build/dev/$program $*"
program=$PWD/build/dev/$program
if [[ $example = tutorial/* ]]; then mkdir -p out && cd out; fi  # one chapter saves a file
exec "$program" "$@"
