# Makes one source of every ```cpp block of the pages that are given: a snippet is a function, and a program (with a
# main) a namespace. A comment of the page before a block, "<!-- snippet: const Tensor& x, int n -->", is the parameters
# of its function: what the reader is to imagine. "<!-- snippet of a file -->" is for one that defines functions.
BEGIN {
  print "// Made of the pages' snippets by tests/tutorial/snippets.awk.\n#include <tendril/tendril.h>\n\n#include <iostream>"
}
FNR == 1 { open = 0; parameters = ""; file = 0 }
/^<!-- snippet: .* -->$/ { parameters = $0; sub(/^<!-- snippet: /, "", parameters); sub(/ -->$/, "", parameters); next }
/^<!-- snippet of a file -->$/ { file = 1; next }
/^```cpp$/ { open = 1; body = ""; first = FNR + 1; whole = file; next }
/^```/ && open {
  ++number
  line = "#line " first " \"" FILENAME "\""
  if (whole) {
    printf "namespace snippet_%d {\nusing namespace tendril;\n%s\n%s}\n", number, line, body
  } else {
    printf "namespace snippet_%d {\nusing namespace tendril;\nusing namespace std::chrono_literals;\n", number
    printf "[[maybe_unused]] void run(%s) {\n%s\n%s}\n}\n", parameters, line, body
  }
  open = 0; parameters = ""; file = 0
  next
}
open {
  if ($0 ~ /^#include/) { body = body "\n"; next }  # the head of this source has them
  if ($0 ~ /^int main\(/) { whole = 1; sub(/main/, "main_of_the_page") }
  body = body $0 "\n"
  next
}
END { printf "int snippets() { return %d; }\n", number }
