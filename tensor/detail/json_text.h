#pragma once

#include <cstddef>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// Calls `f(character, depth)` for each character of a JSON text that stands in no string, `depth` being that of braces
/// and brackets behind it, and returns the depth at the end: 0 where the text is whole. Whether it is JSON is not
/// asked.
template <class F>
int scan_json(std::string_view text, const F& f) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      i += c == '\\' ? 1 : 0;
    } else {
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      f(c, depth);
    }
  }
  return in_string ? depth + 1 : depth;
}

}  // namespace tendril::detail

TENDRIL_API_END
