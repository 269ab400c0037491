# What Doxygen reads of a header: where it includes tensor/pointwise.def, a documented declaration for each row of the
# table, as the macros before it make them; tensor/reductions.def likewise. A function without a comment that follows another of its name on the next line
# gets that one's: our headers say once what overloads have in common. One that does nothing but call another is "As" that
# one. What is of one kind everywhere is said here, where a header does not say more: a struct XOptions, a layer's
# forward(), and for_each_field(), for_each_tensor() and serialize() of what is sent and saved; a method of Tensor that is
# a function of autograd/ops, too. All else as it is.
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
  if (!commented && !/\/\/\/</ && name == last && name != "" && said != "") printf "%s", said
  else if (!commented) {
    said = ""
    if (!/\/\/\/</ && match($0, /\{ return [A-Za-z_:.>-]*[a-z_]\([^;]*\); \}/)) {
      target = substr($0, RSTART + 9); sub(/\(.*/, "", target); sub(/^.*(\.|->|::)/, "", target)
      if (target != name && target !~ /^(move|forward|get|size|begin|end)$/) printf "  /// As %s().\n", target
    }
  }
  if (/\/\/\/</) { said = $0; sub(/.*\/\/\/</, "  ///", said); said = said "\n" }
  if (!commented && said == "" && !/\/\/\/</) {
    if (name == "forward") print "  /// The layer, applied: the class says to what shapes."
    if (name == "for_each_field") print "  /// Calls visit with name and value of each member: for saving and for the wire."
    if (name == "for_each_tensor") print "  /// Calls f with each tensor in it."
    if (name in functions) print "  /// The function " name "(), of this tensor."
    if (name == "serialize") print "  /// For archives (rpc/archive.h)."
  }
  last = name; commented = 0
  printf "%s", held; held = ""
  print
  inside = !/[;}]( *\/\/.*)?$/
  next
}
/^ *struct [A-Za-z0-9]+Options / && !commented && !/;/ {
  name = $0; sub(/^ *struct /, "", name); sub(/Options .*/, "", name)
  print "/// Options of " name "."
}
/^}$/ { print; next }
{ printf "%s", held; held = ""; last = ""; commented = 0; print }
