#!/usr/bin/env bash
# Builds an example and runs it: scripts/demo.sh [cartpole|image_classifier|language_model|resnet50_pipeline|transformer] [the example's own flags],
# e.g. scripts/demo.sh cartpole --seed 1
source "$(dirname "$0")/lib.sh"
examples=(cartpole image_classifier language_model resnet50_pipeline transformer)

usage() {
  echo "usage: scripts/demo.sh [EXAMPLE] [flags of the example]"
  echo "examples: ${examples[*]} (default: ${examples[0]}); EXAMPLE --help lists its flags"
}

example=${examples[0]}
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -* | "") ;;
  *) example=$1; shift ;;
esac
[[ " ${examples[*]} " == *" $example "* ]] || { echo "error: no example is called '$example'" >&2; usage >&2; exit 2; }
# Without flags: what is done in seconds, rather than the tutorial's minutes.
[ "$example $*" != "resnet50_pipeline " ] || set -- --tiny

install_dependencies
say "Building $example"
configure dev
build dev "$example"
say "Running build/dev/examples/$example/$example $*"
exec "build/dev/examples/$example/$example" "$@"
