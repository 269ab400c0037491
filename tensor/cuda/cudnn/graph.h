#pragma once

#include <string>

#include "tendril/tensor/cuda/kernels/conv.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/view.h"

/// What goes to cuDNN as a graph of operations, which it makes one kernel of. Needs no CUDA. Plans are made once for
/// each shape and device, for all threads, and take up to seconds, as cuDNN compiles kernels. graph_absent.cpp stands
/// in where the build has no cudnn-frontend, the emulator's cudnn_graph.cpp where there is no device.
namespace tendril::cuda {

/// An attention without a mask but that of causality.
struct AttentionGraph {
  DType dtype;
  int64_t batch, heads, queries, keys, width, value_width;
  bool causal;
  double scale;
  bool backward;
  /// From one of the batch, one head and one row to the next, in elements; columns lie side by side.
  struct Strides {
    int64_t batch, head, row;
    friend bool operator==(const Strides&, const Strides&) = default;
  };
  Strides query, key, value, out;                       ///< forward and backward
  Strides g = {}, dquery = {}, dkey = {}, dvalue = {};  ///< backward
};
/// cuDNN moves so many bytes at once: where elements do not lie without gaps, addresses and strides are multiples.
inline constexpr int64_t kAttentionBytes = 16;
/// Whether cuDNN has a plan for it, on the current device and with the present settings. Throws as `refused` does.
bool has_plan(const AttentionGraph& graph);
/// What kernels.h says of `attention` and `attention_backward`, of what has a plan. Do not wait. Throw Error where
/// memory runs out, and when cuDNN fails.
void attend(const AttentionGraph& graph, const View& out, const View& log_sum, const View& query, const View& key,
            const View& value);
void attend_backward(const AttentionGraph& graph, const View& dquery, const View& dkey, const View& dvalue,
                     const View& g, const View& out, const View& log_sum, const View& query, const View& key,
                     const View& value);

/// A convolution's result (ConvMap::out) plus `bias` [channels], which may be null; with `relu`, what is negative
/// becomes 0 (NaN stays). False, with nothing issued, where cuDNN has no plan for it, or no memory for its plan can be
/// had. Under `time_plans()` the fastest plan by trial is taken. Does not wait otherwise.
bool convolve_by_graph(const Conv& conv, const View* bias, bool relu);

/// For tests where there is no device: why cuDNN would refuse the graph on a device with these `properties` (JSON, as
/// cuDNN writes them) and this compute capability (90); empty where it would not. Needs no memory of the views'.
struct AbsentDevice {
  std::string properties;
  int capability;
};
std::string why_not(const AttentionGraph& graph, const AbsentDevice& device);
std::string why_not(const Conv& conv, const View* bias, bool relu, const AbsentDevice& device);

}  // namespace tendril::cuda
