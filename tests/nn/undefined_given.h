#pragma once

#include "tendril/tensor/creation.h"
#include "tests/nn/undefined_calls.h"

/// How undefined_methods.cpp and undefined_functions.cpp write their tables: what calls are given, and a row.
namespace tendril::undefined_calls {

inline Tensor x() { return full({2, 3}, 0.5); }
inline Tensor mask() { return full({2, 3}, 1, {.dtype = kBool}); }
inline Tensor index() { return zeros({2, 3}, {.dtype = kInt64}); }
inline Tensor line() { return zeros({1}, {.dtype = kInt64}); }
inline Tensor image() { return ones({1, 2, 4, 4}); }
inline Tensor two() { return ones({2}); }
inline Tensor leaf() { return full({2, 3}, 0.5, {.requires_grad = true}); }

// clang-format off
#define GIVEN(...) [] { return Tensors{__VA_ARGS__}; }
#define CALL(name, expression, ...) {#name, GIVEN(__VA_ARGS__), [](Tensors& t) { expression; }}
/// Methods with no tensor but their own.
#define OWN(method, ...) CALL(method, (void)t[0].method(__VA_ARGS__), x())
#define RAW(function, ...) CALL(function, (void)raw::function(t[0] __VA_OPT__(, ) __VA_ARGS__), x())
// clang-format on

}  // namespace tendril::undefined_calls
