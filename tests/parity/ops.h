#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tendril/autograd/ops/loss.h"
#include "tendril/tensor/geometry.h"
#include "tendril/tensor/tensor.h"

namespace tendril::parity {

using Tensors = std::vector<Tensor>;
using Environment = std::map<int, Tensor>;  ///< of a running program

/// The arguments of a step, each read as what the operation wants. Throws where it is something else.
class Args {
 public:
  Args(const std::vector<std::string>& words, const Environment& environment)
      : words_(words), environment_(environment) {}

  bool is_tensor(std::size_t i) const { return word(i)[0] == '%'; }
  bool is_list(std::size_t i) const { return word(i)[0] == '['; }
  Tensor tensor(std::size_t i) const;  ///< undefined for "none"
  Tensors tensors(std::size_t i) const;
  Scalar scalar(std::size_t i) const;
  int64_t integer(std::size_t i) const { return std::stoll(word(i)); }
  double real(std::size_t i) const;
  bool flag(std::size_t i) const { return word(i) == "true"; }
  std::optional<double> maybe_real(std::size_t i) const;
  std::optional<Scalar> maybe_scalar(std::size_t i) const;
  std::optional<int64_t> maybe_integer(std::size_t i) const;
  Dims dims(std::size_t i) const;
  Size2 size2(std::size_t i) const;
  DType dtype(std::size_t i) const;
  LossReduction reduction(std::size_t i) const;
  const std::string& word(std::size_t i) const { return words_.at(i); }
  const Environment& environment() const noexcept { return environment_; }

 private:
  const std::vector<std::string>& words_;
  const Environment& environment_;
};

/// One tensor or several.
struct Result {
  Result(Tensor one) : tensors{std::move(one)} {}
  Result(std::tuple<Tensor, Tensor> two) : tensors{std::get<0>(two), std::get<1>(two)} {}
  Result(Tensors many) : tensors(std::move(many)) {}
  Tensors tensors;
};

/// How results may differ from PyTorch's (check.cpp).
enum class Kind {
  exact,     ///< elements are moved, chosen or compared, or are rounded once from an exact result
  rounded,   ///< each element comes from a few roundings
  summed,    ///< elements are sums, in an order that is nobody's business
  composed,  ///< the results of graphs of many steps, over leaves of order one
};

struct Op {
  Kind kind;
  std::function<Result(const Args&)> run;
};

/// Every operation by its name: the same names and arguments as in ops.py.
const std::map<std::string, Op>& ops();
void add_more_ops(std::map<std::string, Op>& table);  ///< its part in more_ops.cpp

}  // namespace tendril::parity
