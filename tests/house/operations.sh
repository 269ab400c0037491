#!/bin/sh
# operations.sh SOURCE [PAGE]: every operation of the public headers has its line on docs/operations.md.
cd "$1" || exit 1
page=${2:-docs/operations.md}
results='const Tensor&|Tensor|bool|Unique|std::tuple<[^>]*>|std::vector<Tensor>|[A-Z][A-Za-z]*Result'
names=$(for header in tensor/tensor.h tensor/creation.h autograd/ops/*.h; do awk -f scripts/docs_filter.awk "$header"; done |
  grep -oE "^ *(inline )?($results) [a-z_0-9]+\(" | sed 's/.* //; s/($//' | sort -u |
  grep -vxE 'is_stale|put|tensor_of')  # no operations
number=0 missing=0
for name in $names; do
  number=$((number + 1))
  # A step in place is named by its operation.
  grep -qE "\`[^\`]*\b${name%_}(_\b|\b)[^\`]*\`" "$page" || { echo "not on $page: $name"; missing=$((missing + 1)); }
done
echo "$number operations, $missing missing"
[ "$missing" -eq 0 ] && [ "$number" -gt 250 ]
