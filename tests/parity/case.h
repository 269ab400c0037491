#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tendril/tensor/tensor.h"

/// Cases of tests/parity: programs over tensors, and what PyTorch computed. README.md has the format.
namespace tendril::parity {

/// A tensor given by the elements of its storage.
struct Input {
  int number;
  DType dtype;
  Dims sizes;
  std::optional<Dims> strides;  ///< none: contiguous from offset 0
  int64_t offset = 0;
  bool requires_grad = false;
  std::vector<std::string> values;

  Tensor make() const;
};

struct Step {
  std::vector<int> results;
  std::string op;
  std::vector<std::string> args;
};

enum class RequiresGrad { no, yes, any };

/// What PyTorch gave for one tensor of the program. `slack`, where it is not 0, is how far PyTorch itself is from the
/// same program in higher precision.
struct Expectation {
  int number;
  DType dtype;
  Dims sizes;
  RequiresGrad requires_grad;
  std::vector<std::string> values;
  std::vector<double> slack;
};

struct Case {
  std::string name, place;  ///< place: file:line
  std::vector<std::variant<Input, Step>> nodes;
  std::vector<Expectation> expected;
  bool raises = false;            ///< PyTorch refused a step
  std::string differs;            ///< why we differ, and are meant to; empty: we are not
  bool we_refuse = false;         ///< how we differ: by an error
  std::vector<Expectation> ours;  ///< or by these values
};

/// Throws Error with the place for a file that is not as README.md says.
std::vector<Case> read_cases(const std::string& path);

double real_from(const std::string& text);
DType dtype_called(const std::string& name);
Dims dims_from(const std::string& text);                 ///< "[2,3]"
std::vector<int> numbers_from(const std::string& text);  ///< "(%2,%3)" or "%2,%3"

}  // namespace tendril::parity
