#include "tendril/tensor/cuda/cudnn/graph_plan.h"

#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/capture.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/refusals.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

// Where cudnn-frontend looks for cuDNN's functions.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace tendril::cuda {

void* load_library(const char* name, int flags) noexcept {
  constexpr std::string_view runtime = "libcudart.so.";
  const std::string_view wanted(name);
  const std::string ours = std::string(runtime) + std::to_string(CUDART_VERSION / 1000);
  return wanted.starts_with(runtime) && wanted != ours ? nullptr : ::dlopen(name, flags);
}

namespace {

void find_cudnn() {
  static const bool found = [] {
    const std::string name = "libcudnn.so." + std::to_string(CUDNN_MAJOR);
    cudnn_frontend::cudnn_dlhandle = ::dlopen(name.c_str(), RTLD_NOW);  // loaded long since: we are linked with it
    TENDRIL_CHECK(cudnn_frontend::cudnn_dlhandle, "cuDNN: ", name, " cannot be loaded: ", ::dlerror());
    return true;
  }();
  static_cast<void>(found);
}

std::string explained(fe::error_t error, const char* op, const char* call) {
  return std::string(op) + ": cuDNN's graph: " + call + ": " + error.get_message();
}

/// The second and third code are for all that is wrong with the query or a plan: cuDNN's own status is in the text.
bool is_unsupported(fe::error_t error) {
  switch (error.get_code()) {
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
      return true;
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:  // no plan of those that there are
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:                // no plans
      return names_no_failure(error.get_message());
    default:
      return false;
  }
}

bool is_served(fe::error_t error, const char* op, const char* call) {
  if (error.is_good()) return true;
  if (!is_unsupported(error)) refused(op, call, static_cast<int>(error.get_code()), explained(error, op, call));
  return false;
}

/// Up to where cuDNN says whether it has a plan. `handle` is null for the device that the graph was told of.
fe::error_t prepare(DnnGraph& graph, cudnnHandle_t handle, const GraphRules& rules) {
  if (const fe::error_t error = graph.validate(); error.is_bad()) return error;
  if (const fe::error_t error = handle ? graph.build_operation_graph(handle) : graph.build_operation_graph();
      error.is_bad()) {
    return error;
  }
  const fe::error_t error = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (error.is_bad()) return error;
  graph.deselect_numeric_notes(rules.without);
  return graph.check_support();
}

/// How long a plan takes; infinity where it fails.
double milliseconds_of(const DnnGraph& graph, cudnnHandle_t handle, int64_t plan, int64_t bytes, Bindings& bindings) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  constexpr int kRuns = 3;
  const Workspace scratch(static_cast<std::size_t>(bytes), std::nothrow);
  if (bytes > 0 && !scratch.data()) return kNever;
  const auto run = [&] { return graph.execute_plan_at_index(handle, bindings, scratch.data(), plan).is_good(); };
  if (!run()) return kNever;  // the first loads its kernel
  Event begin(true), end(true);
  const Stream stream = Stream::current(current_device());
  begin.record(stream);
  for (int i = 0; i < kRuns; ++i) {
    if (!run()) return kNever;
  }
  end.record(stream);
  end.reach();
  return end.milliseconds_since(begin) / kRuns;
}

}  // namespace

GraphPlan::Made GraphPlan::make(const char* op, std::unique_ptr<DnnGraph> graph, const GraphRules& rules,
                                Bindings* bindings) {
  const cudnnHandle_t handle = dnn_handle();
  if (const fe::error_t error = prepare(*graph, handle, rules); !is_served(error, op, "prepare")) {
    return {nullptr, is_unsupported(error)};
  }
  constexpr int64_t kTried = 8;
  const bool timed = rules.timed && bindings && !is_capturing();
  int64_t best = -1, best_bytes = 0, tried = 0;
  double least = std::numeric_limits<double>::infinity();
  fe::error_t error;  // the last that may pass, or the last of all
  for (int64_t plan = 0; plan < graph->get_execution_plan_count() && tried < (timed ? kTried : 1); ++plan) {
    int64_t bytes = 0;
    fe::error_t now = graph->build_plan_at_index(plan);
    if (now.is_good()) now = graph->get_workspace_size_plan_at_index(plan, bytes);
    if (now.is_bad()) {
      if (error.is_good() || is_unsupported(error)) error = now;
      continue;
    }
    ++tried;
    const double time = timed ? milliseconds_of(*graph, handle, plan, bytes, *bindings) : 0;
    if (best >= 0 && time >= least) continue;  // the first, cuDNN's own choice, also where no trial had the memory
    least = time;
    best = plan;
    best_bytes = bytes;
  }
  if (best < 0) {
    static_cast<void>(is_served(error, op, "build_plan"));
    return {nullptr, is_unsupported(error)};
  }
  // What no trial has chosen is for this call.
  return {std::shared_ptr<GraphPlan>(new GraphPlan(std::move(graph), best, best_bytes)),
          !timed || least < std::numeric_limits<double>::infinity()};
}

bool GraphPlan::run(const char* op, Bindings& bindings) {
  const Workspace scratch(static_cast<std::size_t>(scratch_), std::nothrow);
  if (scratch_ > 0 && !scratch.data()) return false;
  const cudnnHandle_t handle = dnn_handle();
  const std::lock_guard lock(mutex_);
  return is_served(graph_->execute_plan_at_index(handle, bindings, scratch.data(), index_), op, "execute");
}

std::string why_not(std::unique_ptr<DnnGraph> graph, const GraphRules& rules, const AbsentDevice& device) {
  const auto properties = std::make_shared<fe::DeviceProperties>();
  fe::error_t read = properties->deserialize({device.properties.begin(), device.properties.end()});
  if (read.is_bad()) return read.get_message();
  graph->set_device_properties(properties);
  return prepare(*graph, nullptr, rules).get_message();
}

int capability(const char* op) {
  int major = 0, minor = 0;
  TENDRIL_CUDA(op, cudaDeviceGetAttribute, &major, cudaDevAttrComputeCapabilityMajor, current_device());
  TENDRIL_CUDA(op, cudaDeviceGetAttribute, &minor, cudaDevAttrComputeCapabilityMinor, current_device());
  return 10 * major + minor;
}

std::unique_ptr<DnnGraph> new_graph(DType dtype, int capability, const char* op) {
  find_cudnn();
  auto graph = std::make_unique<DnnGraph>();
  graph->set_io_data_type(graph_type(dtype, op))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT)
      .set_sm_version(capability);
  return graph;
}

fe::DataType_t graph_type(DType dtype, const char* op) {
  switch (dtype) {
    case kFloat32:
      return fe::DataType_t::FLOAT;
    case kFloat16:
      return fe::DataType_t::HALF;
    case kBFloat16:
      return fe::DataType_t::BFLOAT16;
    default:
      tendril::detail::raise<DTypeError>(op, ": no cuda kernel for ", dtype);
  }
}

}  // namespace tendril::cuda
