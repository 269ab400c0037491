#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tendril/tensor/cuda/cudnn/dnn.h"
#include "tendril/tensor/cuda/cudnn/graph.h"

namespace tendril::cuda {

/// dlopen, but of CUDA's runtimes none but the one that we are linked with.
void* load_library(const char* name, int flags) noexcept;

}  // namespace tendril::cuda

// NVIDIA's cudnn-frontend finds functions by their names, so that nothing links with the driver, which may not be
// there.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#define dlopen ::tendril::cuda::load_library
#include <cudnn_frontend.h>
#undef dlopen

/// cuDNN's graphs by cudnn-frontend. Read only by graph_*.cpp, which are compiled where that was found.
namespace tendril::cuda {

namespace fe = cudnn_frontend;
using DnnGraph = fe::graph::Graph;

/// A graph's operands by their numbers in it.
using Bindings = std::unordered_map<int64_t, void*>;

/// What cuDNN may use besides.
struct GraphRules {
  std::vector<fe::NumericalNote_t> without;
  bool timed = false;  ///< the fastest plan by trial, with the operands of the first call, in place of cuDNN's estimate
};

/// A graph and the plan that runs it.
class GraphPlan {
 public:
  struct Made {
    std::shared_ptr<GraphPlan> plan;  ///< null where cuDNN does not serve the graph on the current device
    bool may_be_kept = true;          ///< false after what may pass, such as a lack of memory
  };
  /// See refusals.h for what cuDNN may say besides. `bindings` are for trials, null without.
  static Made make(const char* op, std::unique_ptr<DnnGraph> graph, const GraphRules& rules, Bindings* bindings);

  /// False, with nothing issued, where there is no memory for the plan.
  bool run(const char* op, Bindings& bindings);

 private:
  GraphPlan(std::unique_ptr<DnnGraph> graph, int64_t index, int64_t scratch)
      : graph_(std::move(graph)), index_(index), scratch_(scratch) {}

  std::mutex mutex_;  // plans need not be safe for several threads
  std::unique_ptr<DnnGraph> graph_;
  int64_t index_;
  int64_t scratch_;  // bytes
};

/// As `why_not`.
std::string why_not(std::unique_ptr<DnnGraph> graph, const GraphRules& rules, const AbsentDevice& device);

fe::DataType_t graph_type(DType dtype, const char* op);
/// The current device's compute capability: 90.
int capability(const char* op);
/// Without operations: operands of `dtype`, float32 between them. What is added later learns of the capability here.
std::unique_ptr<DnnGraph> new_graph(DType dtype, int capability, const char* op);

}  // namespace tendril::cuda
