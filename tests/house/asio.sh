#!/bin/sh
# asio.sh SOURCE: which folders of rpc/ include Asio is what docs/rpc.md says. In those that do not, and in flat headers, no file
# may reach it through headers of ours either; a flat source may, by the folders whose work it calls, but names nothing of it.
cd "$1" || exit 1
with=$(sed -n 's/^| `\([a-z]*\)\/` |.*| yes |$/\1/p' docs/rpc.md | tr '\n' ' ')
without=$(sed -n 's/^| `\([a-z]*\)\/` |.*| no |$/\1/p' docs/rpc.md | tr '\n' ' ')
find rpc tensor \( -name '*.h' -o -name '*.cpp' \) -print0 | xargs -0 grep -HE '^[ \t]*#[ \t]*include[ \t]' |
  awk -v with="$with" -v without="$without" '
function bad(file, why) { print file ": " why; findings++ }
# The way from a file to Asio, or "".
function way(file,    i, n, each, found) {
  if (file in asio) return asio[file]
  if (file in seen) return seen[file]
  seen[file] = ""
  n = split(includes[file], each, " ")
  for (i = 1; i <= n; i++) if ((found = way(each[i])) != "") return seen[file] = each[i] " -> " found
  return ""
}
{
  file = $0; sub(/:.*/, "", file)
  files[file]
  if ($0 ~ /boost\/asio[.\/]/) { asio[file] = "boost/asio" }
  if (match($0, /"tendril\/[^"]*"/)) includes[file] = includes[file] " " substr($0, RSTART + 9, RLENGTH - 10)
}
END {
  n = split(with, folders, " "); for (i = 1; i <= n; i++) uses[folders[i]]
  n = split(without, folders, " "); for (i = 1; i <= n; i++) none[folders[i]]
  for (file in files) {
    if (split(file, part, "/") < 2 || part[1] != "rpc") continue
    count++
    flat = part[2] ~ /\./
    if (!flat && !(part[2] in uses) && !(part[2] in none)) bad(file, "its folder is not on docs/rpc.md")
    if (flat && file in asio) bad(file, "flat, and includes Asio")
    else if ((part[2] in none || (flat && file ~ /\.h$/)) && way(file) != "") bad(file, way(file))
  }
  printf "%d files, %d findings\n", count, findings
  exit count < 3 || findings > 0
}'
