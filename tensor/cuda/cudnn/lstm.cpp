#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/cudnn/dnn.h"
#include "tendril/tensor/cuda/kernels/lstm.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/cuda/runtime/aligned.h"
#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/lru.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

/// Layers of LSTMs by cuDNN's recurrent networks: one layer, one direction, all sequences of one length. Without
/// cuDNN, absent.cpp stands in.
namespace tendril::cuda {
namespace {

constexpr const char* kOp = "lstm_layer";
constexpr int kGates = 4, kMostParts = 4 * kGates;

enum Way : int { kExact, kTf32 };

struct Shape {
  int64_t steps, batch, input, cells;
  DType dtype;
  bool bias;
  int way, device;

  bool operator==(const Shape&) const = default;
  int64_t step_bytes(int64_t width) const { return batch * width * static_cast<int64_t>(size_of(dtype)); }
};
struct ShapeHash {
  std::size_t operator()(const Shape& s) const noexcept {
    std::size_t hash = 0;
    for (const int64_t part : {s.steps, s.batch, s.input, s.cells,
                               static_cast<int64_t>(s.dtype) * 4 + s.way * 2 + s.bias, int64_t{s.device}}) {
      hash = hash * 1000003 + static_cast<std::size_t>(part);
    }
    return hash;
  }
};
Shape shape_of(const LstmLayer& layer) {
  return {layer.x.sizes[0], layer.x.sizes[1],         layer.x.sizes[2], layer.weight_hh.sizes[1],
          layer.x.dtype,    layer.bias_ih != nullptr, layer.way,        current_device()};
}

using Network = Descriptor<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using Sequence = Descriptor<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;

/// The parameters, in PyTorch's form.
enum Parameter : int { kWeightIh, kWeightHh, kBiasIh, kBiasHh };

/// Where some gates of a parameter lie among cuDNN's parameters ("weight space").
struct Part {
  Parameter parameter;
  std::size_t from, to, bytes;  // offsets in the parameter and in the space
};

/// What cuDNN wants to know of one Shape, and what it said.
class Plan {
 public:
  explicit Plan(const Shape& shape) : shape_(shape) {
    refused_ = !describe();
    if (!refused_) locate();
  }

  bool refused() const noexcept { return refused_; }
  bool may_be_kept() const noexcept { return answers_.may_be_kept(); }
  std::size_t reserve_bytes(bool training) const noexcept { return training ? reserve_bytes_ : 0; }
  std::size_t work_bytes(bool training) const noexcept { return work_bytes_[training]; }
  std::size_t weight_bytes() const noexcept { return weight_bytes_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }

  Network network;
  Sequence x, y;
  TensorDescriptor state;  // h and c

 private:
  bool describe();
  void locate();

  Shape shape_;
  DnnAnswers answers_{kOp};
  bool refused_ = true;
  std::size_t weight_bytes_ = 0, work_bytes_[2] = {0, 0}, reserve_bytes_ = 0;
  std::vector<Part> parts_;
};

#define TENDRIL_TAKEN(function, ...) answers_.take(function(__VA_ARGS__), #function)

struct Types {
  cudnnDataType_t data, math;
  cudnnMathType_t cores;
};
std::optional<Types> types_of(const Shape& shape) {
  switch (shape.dtype) {
    case kFloat32:
      return Types{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, shape.way == kTf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH};
    case kFloat64:
      return Types{CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DEFAULT_MATH};
    case kFloat16:
      return Types{CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH};
    case kBFloat16:
      return Types{CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH};
    default:
      return std::nullopt;
  }
}

bool Plan::describe() {
  const std::optional<Types> types = types_of(shape_);
  const int64_t widest = std::max({shape_.steps, shape_.batch, shape_.input, kGates * shape_.cells});
  if (!types || widest > std::numeric_limits<int>::max()) return false;
  const auto steps = static_cast<int>(shape_.steps), batch = static_cast<int>(shape_.batch),
             input = static_cast<int>(shape_.input), cells = static_cast<int>(shape_.cells);
  // No dropout within one layer. Sequences of one length are what cuDNN calls packed: nothing to unpad.
  if (!TENDRIL_TAKEN(cudnnSetRNNDescriptor_v8, network, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM,
                     shape_.bias ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
                     types->data, types->math, types->cores, input, cells, cells, 1, nullptr,
                     CUDNN_RNN_PADDED_IO_DISABLED)) {
    return false;
  }
  const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
  for (const auto& [sequence, width] : {std::pair{&x, input}, std::pair{&y, cells}}) {
    if (!TENDRIL_TAKEN(cudnnSetRNNDataDescriptor, *sequence, types->data, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps,
                       batch, width, lengths.data(), nullptr)) {
      return false;
    }
  }
  const int sizes[] = {1, batch, cells}, strides[] = {batch * cells, cells, 1};
  if (shape_.batch * shape_.cells > std::numeric_limits<int>::max() ||
      !TENDRIL_TAKEN(cudnnSetTensorNdDescriptor, state, types->data, 3, sizes, strides)) {
    return false;
  }
  const cudnnHandle_t handle = dnn_handle();
  std::size_t nothing = 0;
  if (!TENDRIL_TAKEN(cudnnGetRNNWeightSpaceSize, handle, network, &weight_bytes_) ||
      !TENDRIL_TAKEN(cudnnGetRNNTempSpaceSizes, handle, network, CUDNN_FWD_MODE_INFERENCE, x, &work_bytes_[0],
                     &nothing) ||
      !TENDRIL_TAKEN(cudnnGetRNNTempSpaceSizes, handle, network, CUDNN_FWD_MODE_TRAINING, x, &work_bytes_[1],
                     &reserve_bytes_)) {
    return false;
  }
  // A space must be there even if nothing is to lie in it.
  for (std::size_t* bytes : {&work_bytes_[0], &work_bytes_[1], &reserve_bytes_}) {
    *bytes = std::max<std::size_t>(*bytes, 1);
  }
  return true;
}

/// Asks where each gate's matrix and bias lie; neighbours become one part.
void Plan::locate() {
  const cudnnHandle_t handle = dnn_handle();
  const Workspace space(weight_bytes_);
  const TensorDescriptor matrix, bias;
  const auto add = [&](Parameter parameter, int gate, const void* address, int64_t numel_of_gate) {
    const std::size_t bytes = static_cast<std::size_t>(numel_of_gate) * size_of(shape_.dtype);
    const Part part{parameter, static_cast<std::size_t>(gate) * bytes,
                    static_cast<std::size_t>(static_cast<const char*>(address) - space.as<const char>()), bytes};
    TENDRIL_CHECK(address && part.to + part.bytes <= weight_bytes_, kOp, ": cuDNN's parameters are not where expected");
    if (!parts_.empty()) {
      Part& last = parts_.back();
      if (last.parameter == parameter && last.from + last.bytes == part.from && last.to + last.bytes == part.to) {
        last.bytes += bytes;
        return;
      }
    }
    parts_.push_back(part);
  };
  // Gates are numbered input, forget, cell, output: first for the input's matrices, then for those of h.
  for (const bool recurrent : {false, true}) {
    std::vector<const void*> biases;
    const int64_t width = recurrent ? shape_.cells : shape_.input;
    for (int gate = 0; gate < kGates; ++gate) {
      void *of_matrix = nullptr, *of_bias = nullptr;
      TENDRIL_CUDNN(kOp, cudnnGetRNNWeightParams, handle, network, 0, weight_bytes_, space.data(),
                    recurrent ? kGates + gate : gate, matrix, &of_matrix, bias, &of_bias);
      add(recurrent ? kWeightHh : kWeightIh, gate, of_matrix, shape_.cells * width);
      biases.push_back(of_bias);
    }
    if (!shape_.bias) continue;
    for (int gate = 0; gate < kGates; ++gate) {
      add(recurrent ? kBiasHh : kBiasIh, gate, biases[static_cast<std::size_t>(gate)], shape_.cells);
    }
  }
}

/// For all threads. Never destroyed: the library may be gone before static objects are.
struct Plans {
  std::mutex mutex;
  Lru<Shape, std::shared_ptr<const Plan>, ShapeHash> cache{256};
};
/// Null where cuDNN refuses the layer.
std::shared_ptr<const Plan> find_plan(const Shape& shape) {
  static auto& plans = *new Plans;
  const std::lock_guard lock(plans.mutex);
  const std::shared_ptr<const Plan> plan = plans.cache.get(shape, [&] { return std::make_shared<const Plan>(shape); });
  if (!plan->refused()) return plan;
  if (!plan->may_be_kept()) plans.cache.drop(shape);
  return nullptr;
}
/// Of a layer that lstm_layer_reserve was asked about.
std::shared_ptr<const Plan> plan_for(const Shape& shape) {
  std::shared_ptr<const Plan> plan = find_plan(shape);
  TENDRIL_CHECK(plan, kOp, ": cuDNN refuses the layer now, and did not before");
  return plan;
}

/// The layer's parameters as cuDNN wants them.
void pack(const Plan& plan, const LstmLayer& layer, const Workspace& space) {
  const View* parameters[] = {&layer.weight_ih, &layer.weight_hh, layer.bias_ih, layer.bias_hh};
  BytesCopy copies[kMostParts];
  std::size_t count = 0;
  for (const Part& part : plan.parts()) {
    copies[count++] = {space.as<char>() + part.to, parameters[part.parameter]->as<const char>() + part.from,
                       static_cast<int64_t>(part.bytes)};
  }
  copy_all(kOp, {copies, count});
}
void unpack(const Plan& plan, const Workspace& space, const LstmLayerGradients& gradients) {
  const View* parameters[] = {gradients.weight_ih, gradients.weight_hh, gradients.bias_ih, gradients.bias_hh};
  BytesCopy copies[kMostParts];
  std::size_t count = 0;
  for (const Part& part : plan.parts()) {
    if (const View* to = parameters[part.parameter]) {
      copies[count++] = {to->as<char>() + part.from, space.as<const char>() + part.to,
                         static_cast<int64_t>(part.bytes)};
    }
  }
  copy_all(kOp, {copies, count});
}

/// What cuDNN reads or writes instead of [T, N, width]: itself, or, in scratch memory, its steps in reverse order or
/// what lies at an address that tensor cores cannot have.
class Steps {
 public:
  Steps(const Shape& shape, int64_t width, bool reverse) : steps_(shape.steps), step_bytes_(shape.step_bytes(width)) {
    if (reverse) memory_.emplace(bytes());
  }
  const void* read(const void* from) {
    if (!memory_) return aligned_.read(kOp, from, bytes());
    reverse_steps(kOp, memory_->data(), from, steps_, step_bytes_);
    return memory_->data();
  }
  void* write(void* to) { return memory_ ? memory_->data() : aligned_.write(to, bytes()); }
  void written(void* to) const {
    if (memory_) reverse_steps(kOp, to, memory_->data(), steps_, step_bytes_);
    aligned_.written(kOp);
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(steps_ * step_bytes_); }

  int64_t steps_, step_bytes_;
  std::optional<Workspace> memory_;
  Aligned aligned_;
};

/// h, c or a gradient of them, [N, H]. May be null.
class State {
 public:
  explicit State(const Shape& shape) : bytes_(static_cast<std::size_t>(shape.step_bytes(shape.cells))) {}
  const void* read(const View* from) { return from ? aligned_.read(kOp, from->data, bytes_) : nullptr; }
  void* write(const View* to) { return to ? aligned_.write(to->data, bytes_) : nullptr; }
  void written() const { aligned_.written(kOp); }

 private:
  std::size_t bytes_;
  Aligned aligned_;
};

void zero(void* data, std::size_t bytes) { TENDRIL_CUDA(kOp, cudaMemsetAsync, data, 0, bytes, current_stream()); }

}  // namespace

int64_t lstm_layer_reserve(LstmLayer& layer, bool training) {
  // cuDNN runs a layer's products in streams of its own, and NVIDIA does not promise the same bits each time.
  if (!cudnn_enabled() || deterministic()) return -1;
  layer.way = layer.x.dtype == kFloat32 && convolution_tf32() ? kTf32 : kExact;
  const auto plan = find_plan(shape_of(layer));
  return plan ? static_cast<int64_t>(plan->reserve_bytes(training)) : -1;
}

void lstm_layer(const LstmLayer& layer, const View& output, const View& c_n, void* reserve) {
  const Shape shape = shape_of(layer);
  const auto held = plan_for(shape);
  const Plan& plan = *held;
  const bool training = reserve != nullptr;
  const Workspace weights(plan.weight_bytes()), work(plan.work_bytes(training));
  Steps x(shape, shape.input, layer.reverse), y(shape, shape.cells, layer.reverse);
  State h0(shape), c0(shape), last(shape);
  pack(plan, layer, weights);
  TENDRIL_CUDNN(kOp, cudnnRNNForward, dnn_handle(), plan.network,
                training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr, plan.x, x.read(layer.x.data),
                plan.y, y.write(output.data), plan.state, h0.read(layer.h0), nullptr, plan.state, c0.read(layer.c0),
                last.write(&c_n), plan.weight_bytes(), weights.data(), plan.work_bytes(training), work.data(),
                plan.reserve_bytes(training), reserve);
  y.written(output.data);
  last.written();
  detail::count_lstm_layer();
}

void lstm_layer_backward(const LstmLayer& layer, const View& output, void* reserve,
                         const LstmLayerGradients& gradients) {
  const Shape shape = shape_of(layer);
  const auto held = plan_for(shape);
  const Plan& plan = *held;
  const Workspace weights(plan.weight_bytes()), work(plan.work_bytes(true));
  Steps x(shape, shape.input, layer.reverse), dx(shape, shape.input, layer.reverse),
      y(shape, shape.cells, layer.reverse), dy(shape, shape.cells, layer.reverse);
  State h0(shape), c0(shape), dc_n(shape), dh0(shape), dc0(shape);
  pack(plan, layer, weights);

  // cuDNN wants the output's gradient and writes x's, if it is asked for or not.
  const auto x_bytes = static_cast<std::size_t>(shape.steps * shape.step_bytes(shape.input)),
             y_bytes = static_cast<std::size_t>(shape.steps * shape.step_bytes(shape.cells));
  std::optional<Workspace> zeros, unwanted;
  if (!gradients.output) zero(zeros.emplace(y_bytes).data(), y_bytes);
  if (!gradients.x) unwanted.emplace(x_bytes);
  const void* xs = x.read(layer.x.data);
  const void* ys = y.read(output.data);
  const void* dys = gradients.output ? dy.read(gradients.output->data) : zeros->data();
  void* dxs = gradients.x ? dx.write(gradients.x->data) : unwanted->data();

  const void* h = h0.read(layer.h0);
  const cudnnHandle_t handle = dnn_handle();
  TENDRIL_CUDNN(kOp, cudnnRNNBackwardData_v8, handle, plan.network, nullptr, plan.y, ys, dys, plan.x, dxs, plan.state,
                h, nullptr, dh0.write(gradients.h0), plan.state, c0.read(layer.c0), dc_n.read(gradients.c_n),
                dc0.write(gradients.c0), plan.weight_bytes(), weights.data(), plan.work_bytes(true), work.data(),
                plan.reserve_bytes(true), reserve);
  if (gradients.x) dx.written(gradients.x->data);
  dh0.written();
  dc0.written();
  if (!gradients.weight_ih && !gradients.weight_hh && !gradients.bias_ih && !gradients.bias_hh) return;

  const Workspace d_weights(plan.weight_bytes());
  zero(d_weights.data(), plan.weight_bytes());  // the gradients are added to what is there
  TENDRIL_CUDNN(kOp, cudnnRNNBackwardWeights_v8, handle, plan.network, CUDNN_WGRAD_MODE_ADD, nullptr, plan.x, xs,
                plan.state, h, plan.y, ys, plan.weight_bytes(), d_weights.data(), plan.work_bytes(true), work.data(),
                plan.reserve_bytes(true), reserve);
  unpack(plan, d_weights, gradients);
}

}  // namespace tendril::cuda
