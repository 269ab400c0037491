# What Doxygen reads of a header: where it includes tensor/pointwise.def, a documented declaration for each row of the
# table, as the macros before it make them; tensor/reductions.def likewise. A function without a comment that follows another of its name on the next line
# gets that one's, unless it is a constructor: our headers say once what overloads have in common. One that does nothing
# but call another, of the same object or of a parameter, is "As" that one. What is of one kind everywhere is said here, where a header does not say more: a struct XOptions, a layer's
# forward() and operator(), and for_each_field(), for_each_tensor() and serialize() of what is sent and saved; a method of Tensor that is
# a function of autograd/ops, too; members that are data by a name that means the same in every options struct (`usual`).
# Several that are declared in one line, `double begin, end;  ///< in seconds`, are declared one by one, each with the
# comment. All else as it is.
function rows(style,    file, line, part, name, doc, kind, value, all) {
  file = "tensor/pointwise.def"
  all = ""
  while ((getline line < file) > 0) {
    if (line !~ /^TENDRIL_[A-Z]+ *\(/) {
      if (kind == "PARAMETRIC" && pending != "" && line ~ /, [-0-9.]+\)$/) { value = line; sub(/.*, /, "", value); sub(/\)$/, "", value)
        all = all declare(style, kind, name, doc, value); pending = "" }
      continue
    }
    kind = line; sub(/^TENDRIL_/, "", kind); sub(/ *\(.*/, "", kind)
    name = line; sub(/^[^(]*\( */, "", name); sub(/ *,.*/, "", name)
    doc = line; sub(/^[^"]*"/, "", doc); sub(/".*/, "", doc)
    if (kind == "PARAMETRIC") pending = name; else all = all declare(style, kind, name, doc, "")
  }
  close(file)
  return all
}
BEGIN {
  usual["dtype"] = "The dtype of what is made."
  usual["device"] = "Where it is made."
  usual["generator"] = "Where its random numbers come from; must outlive what is made."
  usual["bias"] = "Whether there is a bias."
  usual["stride"] = "The distance between two windows, in elements; positive."
  usual["dilation"] = "The distance between two elements of a window; positive."
  usual["groups"] = "The number of groups that the channels are divided into; divides both numbers of channels."
  usual["kernel_size"] = "The size of a window, in elements."
  usual["output_size"] = "The size of the result, whatever that of x."
  usual["options"] = "What it was made with."
  usual["dim"] = "The dimension along which it works; negative: from the last one on."
  usual["reduction"] = "What is made of the single losses: their mean, their sum, or nothing."
  usual["lr"] = "The learning rate."
  usual["momentum"] = "How much of the last step the next one keeps, in [0, 1)."
  usual["dropout"] = "The probability with which an element becomes 0 in training."
  usual["eps"] = "What is added to keep divisors from 0."
  usual["height"] = "Rows, in pixels."
  usual["width"] = "Columns, in pixels."
  usual["batch_first"] = "Whether dimension 0 is the batch and 1 the time, or the other way round."
  usual["bidirectional"] = "Whether it also reads from the end to the beginning."
  usual["num_layers"] = "How many layers, each of which reads the one below."
  usual["training"] = "Whether it behaves as in training."
  usual["value_type"] = usual["difference_type"] = usual["iterator_category"] = usual["element_type"] = \
    usual["result_type"] = usual["promise_type"] = "As the standard library wants it."
}
BEGIN {  # layers that are members of models
  split("Conv2d BatchNorm2d Linear LayerNorm Dropout Sequential ReLU MaxPool2d AdaptiveAvgPool2d MultiheadAttention", words, " ")
  for (i in words) part["  " words[i] " "] = 1
}
# The names that a line declares, in order, in declared[1...]; what stands before them in `type`. 0: no line of data.
function declarators(line,    i, c, depth, text, count, n, word) {
  sub(/; *(\/\/.*)?$/, "", line)
  if (line ~ /^ *(return|using|typedef|friend|class|struct|enum|template|static_assert|delete|throw|if|else|namespace|goto|extern)([^A-Za-z_]|$)/) return 0
  count = 0
  text = ""
  for (i = 1; i <= length(line); ++i) {
    c = substr(line, i, 1)
    if (index("<({[", c)) ++depth
    if (index(">)}]", c)) --depth
    if (c == "," && depth == 0) { declared[++count] = text; text = "" } else text = text c
  }
  declared[++count] = text
  text = declared[1]
  sub(/ *[={].*$/, "", text)
  if (text ~ /[()]$/ || text !~ /[A-Za-z0-9_>*&] +[A-Za-z_0-9]+$/ || depth != 0) return 0
  n = match(text, /[A-Za-z_0-9]+$/)
  type = substr(text, 1, n - 1)
  declared[1] = substr(declared[1], n)
  for (i = 2; i <= count; ++i) sub(/^ */, "", declared[i])
  return count
}
# Whether the line declares a constructor: it has a name and no type. Each has a comment of its own, or none.
function constructs(    before) {
  before = $0
  sub(/\(.*/, "", before)
  return before ~ /^ *((explicit|inline|constexpr) +)*~?[A-Za-z0-9_]+$/
}
function name_in(declarator) { sub(/ *[={].*$/, "", declarator); return declarator }
BEGIN {  # what autograd/ops has of functions of x
  names = ARGV[1] ~ /tensor\/tensor\.h$/ ? "cat autograd/ops/*.h" : ""
  while (names != "" && (names | getline line) > 0) {
    if (line !~ /\(const Tensor& x[,)]/) continue
    sub(/\(.*/, "", line)
    sub(/.* /, "", line)
    functions[line] = 1
  }
}
function declare(style, kind, name, doc, value,    d, self) {
  d = "  /// " doc ". (tensor/pointwise.def)\n"
  if (style == "methods") {
    if (kind == "UNARY" || kind == "PREDICATE") return d "  Tensor " name "() const;\n"
    if (kind == "PARAMETRIC") return d "  Tensor " name "(double p = " value ") const;\n"
    return d "  Tensor " name "(const Tensor& other) const;\n" d "  Tensor " name "(Scalar other) const;\n"
  }
  if (style == "inplace") {
    d = "  /// " doc ", in place. (tensor/pointwise.def)\n"
    if (kind == "UNARY" || kind == "PREDICATE") return d "  const Tensor& " name "_() const;\n"
    if (kind == "PARAMETRIC") return d "  const Tensor& " name "_(double p = " value ") const;\n"
    return d "  const Tensor& " name "_(const Tensor& other) const;\n" d "  const Tensor& " name "_(Scalar other) const;\n"
  }
  if (kind == "UNARY" || kind == "PREDICATE") return d "Tensor " name "(const Tensor& x);\n"
  if (kind == "PARAMETRIC") return d "Tensor " name "(const Tensor& x, double p = " value ");\n"
  return d "Tensor " name "(const Tensor& x, const Tensor& y);\n" d "Tensor " name "(const Tensor& x, Scalar y);\n" \
    (kind == "BINARY" ? d "Tensor " name "(Scalar x, const Tensor& y);\n" : "")
}
/^#define TENDRIL_(UNARY|PARAMETRIC|PREDICATE|BINARY|COMPARE)/ {
  style = /name##_/ ? "inplace" : style
  while (/\\$/) { getline; if (/name##_/) style = "inplace" }
  next
}
/^#include "tendril\/tensor\/pointwise.def"/ {
  printf "%s", rows(style != "" ? style : FILENAME ~ /tensor\.h$/ ? "methods" : "functions")
  style = ""
  next
}
/^#include "tendril\/tensor\/reductions.def"/ && FILENAME ~ /\/ops\// {
  while ((getline line < "tensor/reductions.def") > 0) {
    if (line !~ /^TENDRIL_REDUCTION *\(/) continue
    name = line; sub(/^[^(]*\( */, "", name); sub(/ *,.*/, "", name)
    doc = line; sub(/^[^"]*"/, "", doc); sub(/".*/, "", doc)
    printf "/// %s. Differentiable; empty dims mean all. (tensor/reductions.def)\nTensor %s(const Tensor& x, const Dims& dims = {}, bool keepdim = false);\n", doc, name
  }
  close("tensor/reductions.def")
  next
}
/^#define TENDRIL_REDUCTION/ { while (/\\$/) getline; next }
/^#include/ { next }
/^ *\/\/\/[^<]/ { if (!commented) said = ""; said = said $0 "\n"; commented = 1; print; next }
/^ *$/ || /^ *(public|private|protected):/ { said = last = ""; commented = 0; print; next }
inside { print; if (/[;}]( *\/\/.*)?$/) inside = 0; next }  # the rest of a declaration
/^ *template *</ && !/[;}] *(\/\/.*)?$/ && !/\(/ { held = held $0 "\n"; next }
/^ *[A-Za-z_:~\[][^=]*[A-Za-z_~0-9=<>+*\/%&|^!-]\(/ {
  name = $0; sub(/\(.*/, "", name); sub(/^.*[ &*]/, "", name)
  if (!commented && !/\/\/\/</ && name == last && name != "" && said != "" && !constructs()) printf "%s", said
  else if (!commented) {
    said = ""
    if (!/\/\/\/</ && match($0, /\{ return ([a-z]\.)?[a-z_]+\([^;()]*(\([^;()]*\)[^;()]*)*\); \}/)) {
      target = substr($0, RSTART + 9); sub(/\(.*/, "", target); sub(/^.*\./, "", target)
      if (target != name && target !~ /^(forward|call|function|put|all|find|defined)$/) printf "  /// As %s().\n", target
    }
  }
  if (/\/\/\/</) { said = $0; sub(/.*\/\/\/</, "  ///", said); said = said "\n" }
  if (!commented && said == "" && !/\/\/\/</) {
    if (name == "forward") print "  /// The layer, applied: the class says to what shapes."
    if (/ operator\(\)\(/ && FILENAME ~ /nn\//) print "  /// As forward()."
    if (name == "for_each_field") print "  /// Calls visit with name and value of each member: for saving and for the wire."
    if (name == "for_each_tensor") print "  /// Calls f with each tensor in it."
    if (name in functions) print "  /// The function " name "(), of this tensor."
    if (FILENAME ~ /ops\/functions\.h$/) print "/// The method " name "() of x."
    if (/, T dtype\)/) print "/// As with options: {.dtype = dtype}."
    if (name == "serialize") print "  /// For archives (rpc/archive.h)."
  }
  last = name; commented = 0
  printf "%s", held; held = ""
  print
  inside = !/[;}]( *\/\/.*)?$/
  next
}
# Members that are data, of a class or struct that is open at the indentation before; and constants of a namespace.
/^ *(class|struct) [^;]*\{$/ { match($0, /^ */); ++open; opened[open] = RLENGTH }
open && /^ *\};/ { match($0, /^ */); while (open && opened[open] >= RLENGTH) --open }
/;( *\/\/.*)?$/ && ((open && match($0, /^ */) && RLENGTH == opened[open] + 2) || /^inline constexpr /) && (count = declarators($0)) {
  comment = match($0, /; *\/\/\/<.*/) ? substr($0, RSTART + 1) : ""
  for (i = 1; i <= count; ++i) {
    if (i > 1 && commented && comment == "") printf "%s", said
    else if (!commented && comment == "" && name_in(declared[i]) in usual) print "  /// " usual[name_in(declared[i])]
    else if (!commented && comment == "" && type in part) print "  /// A part of it, under the name that PyTorch gives it."
    print type declared[i] ";" comment
  }
  commented = 0; last = ""
  next
}
/^ *using [a-z_]+ = [^;]*;$/ && !commented {
  name = $2
  if (name in usual) print "  /// " usual[name]
}
/^ *struct [A-Za-z0-9]+Options / && !commented && !/;/ {
  name = $0; sub(/^ *struct /, "", name); sub(/Options .*/, "", name)
  print "/// Options of " name "."
}
/^}$/ { print; next }
{ printf "%s", held; held = ""; last = ""; commented = 0; print }
