// What the emulated cuDNN queues for LSTM layers, as plain loops.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "cuda_emulator/arithmetic.h"
#include "cuda_emulator/cudnn_descriptors.h"
#include "cuda_emulator/cudnn_rnn.h"

namespace cuda_emulator {
namespace {

constexpr std::int64_t kForwardDone = 0x5AFE, kDataDone = 0xD0E5;

template <class T>
double get(const void* data, std::int64_t i) {
  if constexpr (std::is_same_v<T, double>) return static_cast<const double*>(data)[i];
  return static_cast<double>(static_cast<float>(static_cast<const T*>(data)[i]));
}
template <class T>
void put(void* data, std::int64_t i, double value) {
  if constexpr (std::is_same_v<T, double>) {
    static_cast<double*>(data)[i] = value;
  } else {
    static_cast<T*>(data)[i] = static_cast<T>(static_cast<float>(value));
  }
}
double times(double a, double b, bool tf32) {
  return tf32
             ? static_cast<double>(to_tf32(static_cast<float>(a))) * static_cast<double>(to_tf32(static_cast<float>(b)))
             : a * b;
}

template <class T>
void forward(const RnnCall& call) {
  const std::int64_t N = call.batch, H = call.rnn.cells, I = call.rnn.input;
  const bool tf32 = call.tf32(), biased = call.rnn.bias == CUDNN_RNN_DOUBLE_BIAS;
  scribble(call.work, call.work_bytes);
  std::vector<double> h(static_cast<std::size_t>(N * H), 0), c = h, next_h = h;
  for (std::int64_t i = 0; i < N * H; ++i) {
    if (call.hx) h[static_cast<std::size_t>(i)] = get<T>(call.hx, i);
    if (call.cx) c[static_cast<std::size_t>(i)] = get<T>(call.cx, i);
  }
  for (std::int64_t t = 0; t < call.steps; ++t) {
    for (std::int64_t n = 0; n < N; ++n) {
      for (std::int64_t k = 0; k < H; ++k) {
        double act[kGates];
        for (int gate = 0; gate < kGates; ++gate) {
          double sum = 0;
          const char *w = call.weights + call.space.matrix[gate], *u = call.weights + call.space.matrix[kGates + gate];
          for (std::int64_t j = 0; j < I; ++j)
            sum += times(get<T>(call.x, (t * N + n) * I + j), get<T>(w, k * I + j), tf32);
          for (std::int64_t j = 0; j < H; ++j)
            sum += times(h[static_cast<std::size_t>(n * H + j)], get<T>(u, k * H + j), tf32);
          if (biased) {
            sum += get<T>(call.weights + call.space.bias[gate], k) +
                   get<T>(call.weights + call.space.bias[kGates + gate], k);
          }
          act[gate] = gate == 2 ? std::tanh(sum) : 1 / (1 + std::exp(-sum));
        }
        double& cell = c[static_cast<std::size_t>(n * H + k)];
        cell = act[1] * cell + act[0] * act[2];
        next_h[static_cast<std::size_t>(n * H + k)] = act[3] * std::tanh(cell);
        if (call.reserve) {
          for (int gate = 0; gate < kGates; ++gate) call.gates()[((t * N + n) * kGates + gate) * H + k] = act[gate];
          call.cells()[(t * N + n) * H + k] = cell;
        }
      }
    }
    h = next_h;
    for (std::int64_t i = 0; i < N * H; ++i) put<T>(call.out, t * N * H + i, h[static_cast<std::size_t>(i)]);
  }
  for (std::int64_t i = 0; i < N * H && call.cy; ++i) put<T>(call.cy, i, c[static_cast<std::size_t>(i)]);
  if (call.reserve) *call.reserve = kForwardDone;
}

/// Leaves the gates' gradients where the gates were, so that a second time gives nonsense.
template <class T>
void backward_data(const RnnCall& call) {
  const std::int64_t N = call.batch, H = call.rnn.cells, I = call.rnn.input;
  const bool tf32 = call.tf32(), valid = *call.reserve == kForwardDone;
  scribble(call.work, call.work_bytes);
  std::vector<double> dh(static_cast<std::size_t>(N * H), 0), dc = dh;
  for (std::int64_t i = 0; i < N * H && call.dcy; ++i) dc[static_cast<std::size_t>(i)] = get<T>(call.dcy, i);
  for (std::int64_t t = call.steps - 1; t >= 0; --t) {
    double* gates = call.gates() + t * N * kGates * H;
    for (std::int64_t i = 0; i < N * H; ++i) {
      const std::int64_t n = i / H, k = i % H;
      double* act[kGates];
      for (int gate = 0; gate < kGates; ++gate) act[gate] = gates + (n * kGates + gate) * H + k;
      const double in = *act[0], forget = *act[1], cell = *act[2], out = *act[3];
      const double before = t > 0 ? call.cells()[(t - 1) * N * H + i] : call.cx ? get<T>(call.cx, i) : 0.0;
      const double tanh_c = std::tanh(call.cells()[t * N * H + i]);
      const double d_out = dh[static_cast<std::size_t>(i)] + get<T>(call.dy, t * N * H + i);
      const double d_cell = dc[static_cast<std::size_t>(i)] + d_out * out * (1 - tanh_c * tanh_c);
      *act[0] = valid ? d_cell * cell * in * (1 - in) : NAN;
      *act[1] = d_cell * before * forget * (1 - forget);
      *act[2] = d_cell * in * (1 - cell * cell);
      *act[3] = d_out * tanh_c * out * (1 - out);
      dc[static_cast<std::size_t>(i)] = d_cell * forget;
    }
    const auto through = [&](std::int64_t n, std::int64_t j, int first, std::int64_t width) {
      double sum = 0;
      for (int gate = 0; gate < kGates; ++gate) {
        const char* w = call.weights + call.space.matrix[first + gate];
        for (std::int64_t k = 0; k < H; ++k)
          sum += times(gates[(n * kGates + gate) * H + k], get<T>(w, k * width + j), tf32);
      }
      return sum;
    };
    for (std::int64_t n = 0; n < N; ++n) {
      for (std::int64_t j = 0; j < H; ++j) dh[static_cast<std::size_t>(n * H + j)] = through(n, j, kGates, H);
      for (std::int64_t j = 0; j < I; ++j) put<T>(call.dx, (t * N + n) * I + j, through(n, j, 0, I));
    }
  }
  for (std::int64_t i = 0; i < N * H; ++i) {
    if (call.dhx) put<T>(call.dhx, i, dh[static_cast<std::size_t>(i)]);
    if (call.dcx) put<T>(call.dcx, i, dc[static_cast<std::size_t>(i)]);
  }
  *call.reserve = kDataDone;
}

/// Adds.
template <class T>
void backward_weights(const RnnCall& call) {
  const std::int64_t N = call.batch, H = call.rnn.cells, I = call.rnn.input, rows = call.steps * N;
  const bool tf32 = call.tf32(), valid = *call.reserve == kDataDone;
  scribble(call.work, call.work_bytes);
  const auto add = [&](std::size_t offset, std::int64_t i, double value) {
    put<T>(call.d_weights + offset, i, get<T>(call.d_weights + offset, i) + (valid ? value : NAN));
  };
  for (int gate = 0; gate < kGates; ++gate) {
    for (std::int64_t k = 0; k < H; ++k) {
      const auto d_gate = [&](std::int64_t row) { return call.gates()[(row * kGates + gate) * H + k]; };
      for (std::int64_t j = 0; j < I; ++j) {
        double sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) sum += times(d_gate(row), get<T>(call.x, row * I + j), tf32);
        add(call.space.matrix[gate], k * I + j, sum);
      }
      for (std::int64_t j = 0; j < H; ++j) {
        double sum = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          const double before = row >= N  ? get<T>(call.y, (row - N) * H + j)
                                : call.hx ? get<T>(call.hx, row * H + j)
                                          : 0.0;
          sum += times(d_gate(row), before, tf32);
        }
        add(call.space.matrix[kGates + gate], k * H + j, sum);
      }
      if (call.rnn.bias != CUDNN_RNN_DOUBLE_BIAS) continue;
      double sum = 0;
      for (std::int64_t row = 0; row < rows; ++row) sum += d_gate(row);
      add(call.space.bias[gate], k, sum);
      add(call.space.bias[kGates + gate], k, sum);
    }
  }
}

/// f(T) for the elements' type.
template <class F>
void by_type(cudnnDataType_t type, F f) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return f(double{});
    case CUDNN_DATA_HALF:
      return f(__half{});
    case CUDNN_DATA_BFLOAT16:
      return f(__nv_bfloat16{});
    default:
      return f(float{});
  }
}

}  // namespace

void rnn_forward(const RnnCall& call) {
  by_type(call.rnn.type, [&](auto t) { forward<decltype(t)>(call); });
}
void rnn_backward_data(const RnnCall& call) {
  by_type(call.rnn.type, [&](auto t) { backward_data<decltype(t)>(call); });
}
void rnn_backward_weights(const RnnCall& call) {
  by_type(call.rnn.type, [&](auto t) { backward_weights<decltype(t)>(call); });
}

}  // namespace cuda_emulator
