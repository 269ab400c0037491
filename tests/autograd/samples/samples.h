#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tendril/tensor/tensor.h"

/// What every differentiable operation is checked with. A family is one file here and one of autograd/ops.
namespace tendril::samples {

struct Range {
  double low = -2, high = 2;
};

struct OpSample {
  std::string name;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f;
  std::vector<std::vector<Dims>> shapes;  ///< each entry: the shapes of one call's inputs. At least three.
  std::vector<Range> ranges = {};         ///< of each input; default -2..2. Values keep 0.1 away from 0.
  bool distinct = false;                  ///< values differ by well more than a step: for maxima and sorting
  double eps = 1e-6;                      ///< of the differences
};

/// The names of the nodes in the graph of a recorded result, and in that of its recorded gradients.
std::vector<std::string> nodes_of(const OpSample& sample);

/// gradcheck and gradgradcheck of all shapes, each in every layout: contiguous, transposed, strided, broadcast; and
/// with each input alone requiring a gradient. Returns what failed, or an empty string.
/// On a device, which may be an emulated one, all layouts and each input alone are for the first shape only: that the
/// kernels take any layout is shown by tests/cuda.
std::string check(const OpSample& sample);

std::vector<OpSample> unary();
std::vector<OpSample> binary();
std::vector<OpSample> select();
std::vector<OpSample> inplace();
std::vector<OpSample> reduce();
std::vector<OpSample> softmax();
std::vector<OpSample> matmul();
std::vector<OpSample> views();
std::vector<OpSample> window();
std::vector<OpSample> join();
std::vector<OpSample> index();
std::vector<OpSample> indexing();
std::vector<OpSample> rearrange();
std::vector<OpSample> sort();
std::vector<OpSample> einsum();
std::vector<OpSample> copies();
std::vector<OpSample> dropout();
std::vector<OpSample> embedding();
std::vector<OpSample> loss();
std::vector<OpSample> lstm();
std::vector<OpSample> conv();
std::vector<OpSample> norm();
std::vector<OpSample> layer_norm();
std::vector<OpSample> loss_pairs();
std::vector<OpSample> pool();

struct Family {
  const char* name;  ///< also the file in autograd/ops
  std::vector<OpSample> (*samples)();
};
const std::vector<Family>& families();

}  // namespace tendril::samples
