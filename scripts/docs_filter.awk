# What Doxygen reads of a header: where it includes tensor/pointwise.def, a documented declaration for each row of the
# table, as the macros before it make them; all else as it is.
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
function declare(style, kind, name, doc, value,    d, self) {
  d = "  /// " doc ". (tensor/pointwise.def)\n"
  if (style == "methods") {
    if (kind == "UNARY" || kind == "PREDICATE") return d "  Tensor " name "() const;\n"
    if (kind == "PARAMETRIC") return d "  Tensor " name "(double p = " value ") const;\n"
    return d "  Tensor " name "(const Tensor& other) const;\n" d "  Tensor " name "(Scalar other) const;\n"
  }
  if (style == "inplace") {
    d = "  /// " doc ", in place. (tensor/pointwise.def)\n"
    if (kind == "PREDICATE") return ""
    if (kind == "UNARY") return d "  const Tensor& " name "_() const;\n"
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
/^#include/ { next }
{ print }
