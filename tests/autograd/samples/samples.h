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
  /// Takes the inputs of f and returns a tensor whose zeros are kinks of f. Needed if the kinks depend on several
  /// inputs, or if rounding to a half type may cross them.
  std::function<Tensor(const std::vector<Tensor>&)> kink = {};
};

/// The names of the nodes in the graph of a recorded result, and in that of its recorded gradients.
std::vector<std::string> nodes_of(const OpSample& sample);

/// gradcheck and gradgradcheck of all shapes, each in every layout: contiguous, transposed, strided, broadcast, and
/// channels-last where there are images; and
/// with each input alone requiring a gradient. Returns what failed, or an empty string.
/// On a device, which may be an emulated one, all layouts and each input alone are for the first shape only: that the
/// kernels take any layout is shown by tests/cuda.
std::string check(const OpSample& sample);

/// Results and gradients in a half type beside float64's of the same numbers, as near as `roundings` of `dtype` are.
/// Returns what is further off or was refused, or an empty string.
std::string check_half(const OpSample& sample, DType dtype, double roundings);

std::vector<OpSample> unary_samples();
std::vector<OpSample> binary_samples();
std::vector<OpSample> select_samples();
std::vector<OpSample> inplace_samples();
std::vector<OpSample> reduce_samples();
std::vector<OpSample> softmax_samples();
std::vector<OpSample> scan_samples();
std::vector<OpSample> matmul_samples();
std::vector<OpSample> views_samples();
std::vector<OpSample> window_samples();
std::vector<OpSample> join_samples();
std::vector<OpSample> index_samples();
std::vector<OpSample> indexing_samples();
std::vector<OpSample> rearrange_samples();
std::vector<OpSample> sort_samples();
std::vector<OpSample> combined_samples();
std::vector<OpSample> einsum_samples();
std::vector<OpSample> copies_samples();
std::vector<OpSample> dropout_samples();
std::vector<OpSample> embedding_samples();
std::vector<OpSample> loss_samples();
std::vector<OpSample> lstm_samples();
std::vector<OpSample> conv_samples();
std::vector<OpSample> norm_samples();
std::vector<OpSample> layer_norm_samples();
std::vector<OpSample> loss_pairs_samples();
std::vector<OpSample> pool_samples();
std::vector<OpSample> attention_samples();

struct Family {
  const char* name;  ///< also the file in autograd/ops
  std::vector<OpSample> (*samples)();
};
const std::vector<Family>& families();

}  // namespace tendril::samples
