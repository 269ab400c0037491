#!/bin/sh
# symbols.sh PREFIX: the shared libraries in PREFIX show what stands between the marks of tensor/export.h, which a program
# can name, and hide the rest.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for library in "$1"/lib*/libtendril_*.so "$1"/lib*/*/libtendril_*.so; do
  [ -e "$library" ] || continue
  name=$(objdump -p "$library" | sed -n 's/^ *SONAME *//p')
  case $name in "$(basename "$library").0."*) ;; *) echo "$library: SONAME $name, expected one with the version"; exit 1 ;; esac
  nm --dynamic --defined-only --demangle "$library" | sed 's/^[0-9a-f]* . //' >>"$folder/shown"
done
status=0
shown() { grep -qE "$1" "$folder/shown" || { echo "not shown: $1"; status=1; }; }
hidden() { ! grep -E "$1" "$folder/shown" | head -3 | grep . || { echo "shown: $1"; status=1; }; }
shown '^tendril::backward\(|^tendril::Tensor::backward\('
shown '^tendril::nn::Linear::Linear\('
shown '^tendril::rpc::Group::Group\('
shown '^tendril::Tensor tendril::from_vector<long>\('
shown '^tendril::Tensor tendril::raw::from_data<long>\('
shown '^vtable for tendril::nn::Module$'
shown '^typeinfo for tendril::ShapeError$'
hidden '^tendril::cpu::(base|avx2)::'              # kernels
hidden '^tendril::rpc::detail::(ConnectionState|Dial|SocketLink|Reactor)::'
hidden '^tendril::dist::autograd::detail::(PassGraph|PassTrace|Transmitter)::'
echo "$(wc -l <"$folder/shown") symbols"
exit $status
