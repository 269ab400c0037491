#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

/// LSTM layers of the emulated cuDNN: one layer, one direction, one length. cudnn_rnn.cpp has cuDNN's functions,
/// cudnn_rnn_loops.cpp what they queue.
struct cudnnRNNStruct {
  bool is_set = false;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int input = 0, cells = 0;
};
struct cudnnRNNDataStruct {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int steps = 0, batch = 0, width = 0;
};

namespace cuda_emulator {

inline constexpr int kGates = 4;

/// Byte offsets of matrices and biases of linear layers 0 to 7, and the size of all.
struct RnnSpace {
  std::size_t matrix[2 * kGates], bias[2 * kGates], bytes;
};
/// Everything that a call says, by value: it runs later.
struct RnnCall {
  cudnnRNNStruct rnn;
  RnnSpace space;
  int steps, batch;
  const void *x, *y, *hx, *cx, *dy, *dcy;
  void *out, *cy, *dx, *dhx, *dcx;
  const char* weights;
  char* d_weights;
  void* work;
  std::size_t work_bytes;
  std::int64_t* reserve;  // null in inference

  double* gates() const { return reinterpret_cast<double*>(reserve + 1); }
  double* cells() const { return gates() + std::int64_t{steps} * batch * kGates * rnn.cells; }
  bool tf32() const { return rnn.type == CUDNN_DATA_FLOAT && rnn.math != CUDNN_FMA_MATH; }
};
/// What is queued, in the order of the calls.
void rnn_forward(const RnnCall& call);
void rnn_backward_data(const RnnCall& call);
void rnn_backward_weights(const RnnCall& call);

}  // namespace cuda_emulator
