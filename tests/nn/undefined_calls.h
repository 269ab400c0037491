#pragma once

#include <vector>

#include "tendril/tensor/tensor.h"

/// Calls of every function that takes tensors, for undefined_test.cpp.
namespace tendril::undefined_calls {

using Tensors = std::vector<tendril::Tensor>;

/// Plain pointers: tables of hundreds of strings and std::functions took 12 s to compile.
struct Call {
  const char* name;        ///< as the headers have it
  Tensors (*arguments)();  ///< with which it succeeds; each is undefined in turn
  void (*call)(Tensors&);
  const char* op = "";  ///< as errors name it, if otherwise
};

std::vector<Call> pointwise();
std::vector<Call> methods();
std::vector<Call> functions_of_raw();
std::vector<Call> functions();
std::vector<Call> functions_of_places();

}  // namespace tendril::undefined_calls
