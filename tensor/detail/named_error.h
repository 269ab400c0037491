#pragma once

#include <initializer_list>
#include <string_view>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// Rethrows the exception that is being handled. If it is one of tensor/error.h whose message begins with one of
/// `made_of`, the message begins with `op` in its place.
[[noreturn]] void rethrow_named(std::string_view op, std::initializer_list<std::string_view> made_of);

/// Returns f(). Its errors name the operation `op`, not the operations `made_of`, which f calls. Other errors, such
/// as those of a program's hook, are unchanged.
template <class F>
auto named_errors(std::string_view op, std::initializer_list<std::string_view> made_of, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (...) {
    rethrow_named(op, made_of);
  }
}

}  // namespace tendril::detail

TENDRIL_API_END
