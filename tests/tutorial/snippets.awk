# Makes one program of every ```cpp block of the pages that are given, which runs them all. Comments of the page before
# a block say what its reader is to imagine (snippets.h has what makes workers and files):
#
#   <!-- before: Tensor x = rand({2, 3}); -->   statements before the snippet, in the function that it becomes
#   <!-- defined: int f() { return 1; } -->     functions that the snippet calls; both may stand several times
#   <!-- snippet of a file -->                  it defines functions, and is a namespace
#   <!-- run: CODE -->                          ... which CODE runs
#
# A program (with a main) is compiled here; house/the_readmes_program_runs runs it. A block that nothing runs is an
# error, and so is a block of no language in which a line ends as a statement does: it would be C++ that nobody compiles.
BEGIN {
  print "// Made of the pages' snippets by tests/tutorial/snippets.awk.\n#include <tendril/tendril.h>\n\n#include <iostream>"
  print "#include \"snippets.h\"\n#include \"tendril/rpc/simulation.h\"\n"
}
function comment(text) {
  sub(/^<!-- [a-z ]*: /, "", text)
  sub(/ -->$/, "", text)
  return text
}
function forget() { before = code = defined = ""; whole = file = program = 0 }
FNR == 1 { open = 0; other = ""; forget() }
/^<!-- before: .* -->$/ { before = before comment($0) " "; next }
/^<!-- defined: .* -->$/ { defined = defined comment($0) " "; next }
/^<!-- run: .* -->$/ { code = comment($0); next }
/^<!-- snippet of a file -->$/ { file = 1; next }
/^```cpp$/ { open = 1; body = ""; first = FNR + 1; whole = file; next }
/^```/ && open {
  ++number
  line = "#line " first " \"" FILENAME "\""
  printf "namespace snippet_%d {\nusing namespace tendril;\nusing namespace std::chrono_literals;\n", number
  if (whole) {
    printf "%s\n%s", line, body
    if (code != "") printf "void run() {\n%s\n%s\n}\n", line, code
  } else {
    printf "%s\n%s\nvoid run() {\n%s\n%s\n%s\n%s}\n", line, defined, line, before, line, body
  }
  print "}"
  if (program) ++programs
  else if (whole && code == "") { print FILENAME ":" first ": nothing runs this snippet" >"/dev/stderr"; bad = 1 }
  else runs = runs sprintf("  {\"%s:%d\", &snippet_%d::run},\n", FILENAME, first, number)
  open = 0
  forget()
  next
}
/^ *```/ && !open { other = other == "" ? $1 : ""; next }
other == "```" && /;( *\/\/.*)?$/ {
  print FILENAME ":" FNR ": a statement in a block without a language: expected ```cpp" >"/dev/stderr"
  bad = 1
}
open {
  if ($0 ~ /^#include/) { body = body "\n"; next }  # the head of this source has them
  if ($0 ~ /^int main\(/) { whole = program = 1; sub(/main/, "main_of_the_page") }
  body = body $0 "\n"
  next
}
END {
  printf "const std::vector<Snippet> kSnippets{\n%s};\n", runs
  printf "const int kPrograms = %d;\n", programs
  exit bad
}
