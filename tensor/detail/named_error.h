#pragma once

#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// Rethrows the exception that is being handled. If it is one of tensor/error.h, its message begins with `op` in place
/// of the operation that it names.
[[noreturn]] void rethrow_named(std::string_view op);

/// Returns f(). Its errors name the operation `op`, not those that f is made of.
template <class F>
auto named_errors(std::string_view op, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    rethrow_named(op);
  }
}

}  // namespace tendril::detail

TENDRIL_API_END
