// cuDNN for the emulated device: LSTM layers of the version 8 interface for recurrent networks. Arguments are checked
// as NVIDIA's manual says that cuDNN checks them.
#include <algorithm>
#include <initializer_list>

#include "cuda_emulator/cudnn_descriptors.h"
#include "cuda_emulator/cudnn_rnn.h"
#include "cuda_emulator/emulator.h"
#include "cuda_emulator/failures.h"

using namespace cuda_emulator;

namespace {

constexpr std::size_t kGap = 64;  // bytes after each recurrent matrix: nobody promises that gates are neighbours

RnnSpace space_of(const cudnnRNNStruct& rnn) {
  RnnSpace space{};
  std::size_t at = 0;
  const std::size_t element = bytes_of(rnn.type);
  for (int id = 0; id < 2 * kGates; ++id) {
    space.matrix[id] = at;
    at += static_cast<std::size_t>(rnn.cells) * static_cast<std::size_t>(id < kGates ? rnn.input : rnn.cells) * element;
    if (id >= kGates) at += kGap;
  }
  for (int id = 0; id < 2 * kGates && rnn.bias == CUDNN_RNN_DOUBLE_BIAS; ++id) {
    space.bias[id] = at;
    at += static_cast<std::size_t>(rnn.cells) * element;
  }
  space.bytes = at;
  return space;
}

std::size_t reserve_bytes(const cudnnRNNStruct& rnn, int steps, int batch) {
  return sizeof(std::int64_t) +
         sizeof(double) * static_cast<std::size_t>(steps) * static_cast<std::size_t>(batch * (kGates + 1) * rnn.cells);
}
std::size_t work_bytes(int steps, int batch) { return 64 + static_cast<std::size_t>(steps * batch); }

/// What the three calls have in common; SUCCESS if it is as it should be.
cudnnStatus_t check(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t* lengths, cudnnRNNDataDescriptor_t x,
                    cudnnRNNDataDescriptor_t y, std::initializer_list<cudnnTensorDescriptor_t> states,
                    std::initializer_list<const void*> pointers, std::size_t weight_size, std::size_t work_size,
                    bool training, std::size_t reserve_size) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (!rnn || !rnn->is_set || !x || !x->is_set || !y || !y->is_set) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is not set");
  }
  if (lengths) return refuse(CUDNN_STATUS_BAD_PARAM, "devSeqLengths should be NULL");
  if (x->type != rnn->type || y->type != rnn->type || x->steps != y->steps || x->batch != y->batch ||
      x->width != rnn->input || y->width != rnn->cells) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the data descriptors do not fit the network");
  }
  for (const cudnnTensorDescriptor_t state : states) {
    if (!state || state->dims != 3 || state->size[0] != 1 || state->size[1] != x->batch ||
        state->size[2] != rnn->cells || state->type != rnn->type || !state->is_packed()) {
      return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a state is not [1, batch, hidden size], fully packed");
    }
  }
  if (std::count(pointers.begin(), pointers.end(), nullptr) > 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  }
  if (weight_size < space_of(*rnn).bytes || work_size < work_bytes(x->steps, x->batch) ||
      (training && reserve_size < reserve_bytes(*rnn, x->steps, x->batch))) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "a space is too small");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t queue(cudnnHandle_t handle, void (*work)(const RnnCall&), const RnnCall& call) {
  for (const void* operand : {call.x, call.y, call.hx, call.cx, call.dy, call.dcy, static_cast<const void*>(call.out),
                              static_cast<const void*>(call.cy), static_cast<const void*>(call.dx),
                              static_cast<const void*>(call.dhx), static_cast<const void*>(call.dcx)}) {
    if (reinterpret_cast<std::uintptr_t>(operand) % 16 != 0) {
      return refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "an operand is not 16-byte aligned");
    }
  }
  const cudaError_t error = enqueue(handle->stream, [=] { work(call); });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* rnn) {
  *rnn = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnn) {
  delete rnn;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) {
  *data = new cudnnRNNDataStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) {
  delete data;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algo, cudnnRNNMode_t cell,
                                       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input_mode, cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math, int32_t input, int32_t cells, int32_t projection,
                                       int32_t layers, cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  if (!rnn) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  if (const int status = planned_failure(Planning::lstm); status != 0) {
    return refuse(static_cast<cudnnStatus_t>(status), "no layer today");
  }
  if (input <= 0 || cells <= 0 || layers <= 0 || projection > cells) return refuse(CUDNN_STATUS_BAD_PARAM, "a size");
  const bool precise = type == CUDNN_DATA_DOUBLE ? precision == CUDNN_DATA_DOUBLE : precision == CUDNN_DATA_FLOAT;
  if (bytes_of(type) == 0 || type == CUDNN_DATA_INT32 || !precise) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the combination of dataType and mathPrec");
  }
  if (algo != CUDNN_RNN_ALGO_STANDARD || cell != CUDNN_LSTM || direction != CUDNN_UNIDIRECTIONAL || layers != 1 ||
      input_mode != CUDNN_LINEAR_INPUT || projection != cells || dropout ||
      (bias != CUDNN_RNN_DOUBLE_BIAS && bias != CUDNN_RNN_NO_BIAS) || flags != CUDNN_RNN_PADDED_IO_DISABLED) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator does not know this network");
  }
  *rnn = {true, bias, type, math, input, cells};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch, int width,
                                        const int lengths[], void* padding) {
  if (!data || !lengths) return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null");
  if (steps > 0xFFFF) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "more than 65535 steps");
  if (steps <= 0 || batch <= 0 || width <= 0) return refuse(CUDNN_STATUS_BAD_PARAM, "a size is not positive");
  if (std::any_of(lengths, lengths + batch, [&](int n) { return n <= 0 || n > steps; })) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a length");
  }
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED || padding ||
      std::any_of(lengths, lengths + batch, [&](int n) { return n != steps; })) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator knows sequences of one length only");
  }
  *data = {true, type, steps, batch, width};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, std::size_t* bytes) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (!rnn || !rnn->is_set || !bytes) return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is not set");
  *bytes = space_of(*rnn).bytes;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                                        cudnnRNNDataDescriptor_t x, std::size_t* work, std::size_t* reserve) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (!rnn || !rnn->is_set || !x || !x->is_set) return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is not set");
  if (work) *work = work_bytes(x->steps, x->batch);
  if (reserve) *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(*rnn, x->steps, x->batch) : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer, std::size_t bytes,
                                      const void* space, int32_t id, cudnnTensorDescriptor_t matrix, void** of_matrix,
                                      cudnnTensorDescriptor_t bias, void** of_bias) {
  if (const cudnnStatus_t status = look_at(handle); status != CUDNN_STATUS_SUCCESS) return status;
  if (!rnn || !rnn->is_set || !space || !matrix || !of_matrix || !bias || !of_bias || layer != 0 || id < 0 ||
      id >= 2 * kGates || bytes < space_of(*rnn).bytes) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "an argument of cudnnGetRNNWeightParams");
  }
  const RnnSpace where = space_of(*rnn);
  char* base = static_cast<char*>(const_cast<void*>(space));
  const int width = id < kGates ? rnn->input : rnn->cells;
  const int sizes[] = {1, rnn->cells, width}, strides[] = {rnn->cells * width, width, 1};
  *of_matrix = base + where.matrix[id];
  cudnnSetTensorNdDescriptor(matrix, rnn->type, 3, sizes, strides);
  bias->dims = 0;
  *of_bias = nullptr;
  if (rnn->bias == CUDNN_RNN_DOUBLE_BIAS) {
    const int bias_sizes[] = {1, rnn->cells, 1}, bias_strides[] = {rnn->cells, 1, 1};
    *of_bias = base + where.bias[id];
    cudnnSetTensorNdDescriptor(bias, rnn->type, 3, bias_sizes, bias_strides);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                              const int32_t lengths[], cudnnRNNDataDescriptor_t x_desc, const void* x,
                              cudnnRNNDataDescriptor_t y_desc, void* y, cudnnTensorDescriptor_t h_desc, const void* hx,
                              void* hy, cudnnTensorDescriptor_t c_desc, const void* cx, void* cy,
                              std::size_t weight_size, const void* weights, std::size_t work_size, void* work,
                              std::size_t reserve_size, void* reserve) {
  const bool training = mode == CUDNN_FWD_MODE_TRAINING;
  const void* const must = training ? reserve : work;
  const cudnnStatus_t status = check(handle, rnn, lengths, x_desc, y_desc, {h_desc, c_desc},
                                     {x, y, weights, work, must}, weight_size, work_size, training, reserve_size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (hy) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator does not write hy");
  RnnCall call{*rnn, space_of(*rnn), x_desc->steps, x_desc->batch};
  call.x = x;
  call.out = y;
  call.hx = hx;
  call.cx = cx;
  call.cy = cy;
  call.weights = static_cast<const char*>(weights);
  call.work = work;
  call.work_bytes = work_size;
  call.reserve = training ? static_cast<std::int64_t*>(reserve) : nullptr;
  return queue(handle, rnn_forward, call);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t lengths[],
                                      cudnnRNNDataDescriptor_t y_desc, const void* y, const void* dy,
                                      cudnnRNNDataDescriptor_t x_desc, void* dx, cudnnTensorDescriptor_t h_desc,
                                      const void* hx, const void* dhy, void* dhx, cudnnTensorDescriptor_t c_desc,
                                      const void* cx, const void* dcy, void* dcx, std::size_t weight_size,
                                      const void* weights, std::size_t work_size, void* work, std::size_t reserve_size,
                                      void* reserve) {
  const cudnnStatus_t status = check(handle, rnn, lengths, x_desc, y_desc, {h_desc, c_desc},
                                     {y, dy, dx, weights, work, reserve}, weight_size, work_size, true, reserve_size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (dhy) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the emulator does not read dhy");
  RnnCall call{*rnn, space_of(*rnn), x_desc->steps, x_desc->batch};
  call.hx = hx;
  call.cx = cx;
  call.dy = dy;
  call.dcy = dcy;
  call.dx = dx;
  call.dhx = dhx;
  call.dcx = dcx;
  call.weights = static_cast<const char*>(weights);
  call.work = work;
  call.work_bytes = work_size;
  call.reserve = static_cast<std::int64_t*>(reserve);
  return queue(handle, rnn_backward_data, call);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t mode,
                                         const int32_t lengths[], cudnnRNNDataDescriptor_t x_desc, const void* x,
                                         cudnnTensorDescriptor_t h_desc, const void* hx,
                                         cudnnRNNDataDescriptor_t y_desc, const void* y, std::size_t weight_size,
                                         void* d_weights, std::size_t work_size, void* work, std::size_t reserve_size,
                                         void* reserve) {
  const cudnnStatus_t status = check(handle, rnn, lengths, x_desc, y_desc, {h_desc}, {x, y, d_weights, work, reserve},
                                     weight_size, work_size, true, reserve_size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode != CUDNN_WGRAD_MODE_ADD) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only ADD is supported");
  RnnCall call{*rnn, space_of(*rnn), x_desc->steps, x_desc->batch};
  call.x = x;
  call.y = y;
  call.hx = hx;
  call.d_weights = static_cast<char*>(d_weights);
  call.work = work;
  call.work_bytes = work_size;
  call.reserve = static_cast<std::int64_t*>(reserve);
  return queue(handle, rnn_backward_weights, call);
}

}  // extern "C"
