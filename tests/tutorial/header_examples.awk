# Makes a source of the examples in headers' comments (lines that begin with "///" and five spaces), each in the
# namespace of its header, so that they compile: awk -f header_examples.awk header_examples.txt HEADERS. The first file
# says what a reader is to imagine around each. An example that it does not name, and a name without one, is an error.
# "..." stands for nothing, "for (...)" for a loop.
FNR == NR {
  if ($0 ~ /^#/ || NF == 0) next
  if ($0 !~ /^ /) { key = $1; named[key] = 1; formula[key] = $2 == "formula"; next }
  what = $1
  sub(/^ *[a-z]+: /, "")
  given[key, what] = given[key, what] $0 " "
  next
}
FNR == 1 { space = "tendril"; count = 0; body = "" }
/^namespace tendril[a-z:_]* \{/ && !/detail/ { space = $2 }
# A block begins within a comment, before the header's own namespace perhaps: it is written when the header has ended.
function example() {
  if (body == "") return
  key = FILENAME (++count > 1 ? "#" count : "")
  if (!(key in named)) {
    print FILENAME ":" first ": an example that header_examples.txt does not name" >"/dev/stderr"
    bad = 1
  }
  seen[key] = 1
  keys[++all] = key
  text[key] = body
  line[key] = "#line " first " \"" FILENAME "\""
  body = ""
}
/^ *\/\/\/     [^ ]/ || (body != "" && /^ *\/\/\/(     .*)?$/) {
  if (body == "") first = FNR
  sub(/^ *\/\/\/ ?/, "")
  gsub(/for \(\.\.\.\)/, "for (;;)")
  gsub(/\.\.\./, ";")
  body = body $0 "\n"
  next
}
{ example(); spaces[FILENAME] = space }
END {
  print "// Made of headers' examples by tests/tutorial/header_examples.awk.\n#include <tendril/tendril.h>\n"
  print "#include <iostream>\n#include <span>"
  for (i = 1; i <= all; ++i) {
    header = keys[i]
    sub(/#.*/, "", header)
    if (!(header in included)) print "#include \"tendril/" header "\""
    included[header] = 1
  }
  for (i = 1; i <= all; ++i) {
    key = keys[i]
    if (formula[key]) continue
    header = key
    sub(/#.*/, "", header)
    printf "\nnamespace %s::example_%d {\n%s\n", spaces[header], i, given[key, "defined:"]
    if ((key, "open:") in given)
      printf "%s\n%s\n%s%s\n", given[key, "open:"], line[key], text[key], given[key, "close:"]
    else printf "void run() {\n%s\n%s\n%s;\n}\n", given[key, "before:"], line[key], text[key]
    print "}"
    ++compiled
  }
  for (key in named)
    if (!(key in seen)) { print "header_examples.txt: " key ": no such example" >"/dev/stderr"; bad = 1 }
  print "\n// " compiled " examples."
  exit bad
}
