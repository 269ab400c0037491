// cuDNN's graphs for the emulated device: not cuDNN's own functions but those of the library that call them, as loops.
// They take what cuDNN would on a Hopper device and no more.
#include "tendril/tensor/cuda/cudnn/graph.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "tendril/tensor/cuda/runtime/current.h"

namespace tendril::cuda {
namespace {

/// f(element type, for a dtype of 16 bits or float)
template <class F>
void by_dtype(DType dtype, F f) {
  if (dtype == kFloat16) return f(__half());
  if (dtype == kBFloat16) return f(__nv_bfloat16());
  f(float());
}

template <class T>
std::vector<float> values(const void* data, int64_t count) {
  std::vector<float> result(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    result[static_cast<std::size_t>(i)] = static_cast<float>(static_cast<const T*>(data)[i]);
  return result;
}
template <class T>
void store(void* data, const std::vector<float>& from) {
  for (std::size_t i = 0; i < from.size(); ++i) static_cast<T*>(data)[i] = static_cast<T>(from[i]);
}

/// One head of an operand of attention: rows of `columns` that lie by the graph's strides.
struct Head {
  int64_t rows, columns, start, step;
  Head(const AttentionGraph::Strides& by, int64_t r, int64_t c, int64_t batch, int64_t head)
      : rows(r), columns(c), start(batch * by.batch + head * by.head), step(by.row) {}

  template <class T>
  std::vector<float> values(const void* data) const {
    std::vector<float> result;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        result.push_back(static_cast<float>(static_cast<const T*>(data)[start + r * step + c]));
      }
    }
    return result;
  }
  template <class T>
  void store(void* data, const std::vector<float>& from) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        static_cast<T*>(data)[start + r * step + c] = static_cast<T>(from[static_cast<std::size_t>(r * columns + c)]);
      }
    }
  }
};

struct Pointers {
  const void *query, *key, *value, *g = nullptr;
  void *out, *log_sum, *dquery = nullptr, *dkey = nullptr, *dvalue = nullptr;
};

/// One head of one of the batch, forward or backward.
template <class T>
void attend_one(const AttentionGraph& a, const Pointers& p, int64_t batch, int64_t head) {
  const int64_t l = a.queries, s = a.keys, e = a.width, v = a.value_width;
  const auto of = [&](const AttentionGraph::Strides& by, int64_t rows, int64_t columns) {
    return Head(by, rows, columns, batch, head);
  };
  const std::vector<float> q = of(a.query, l, e).template values<T>(p.query),
                           k = of(a.key, s, e).template values<T>(p.key),
                           x = of(a.value, s, v).template values<T>(p.value);
  const std::vector<float> g = p.g ? of(a.g, l, v).template values<T>(p.g) : std::vector<float>();
  std::vector<float> out(static_cast<std::size_t>(l * v)), dq(q.size()), dk(k.size()), dx(x.size());
  float* log_sum = static_cast<float*>(p.log_sum) + (batch * a.heads + head) * l;
  std::vector<double> weights(static_cast<std::size_t>(s)), slopes(weights.size());
  const auto dot = [](const float* y, const float* z, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(y[i]) * z[i];
    return sum;
  };
  for (int64_t i = 0; i < l; ++i) {
    const int64_t seen = a.causal ? std::min(i + 1, s) : s;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < seen; ++j) {
      weights[static_cast<std::size_t>(j)] =
          a.scale * dot(&q[static_cast<std::size_t>(i * e)], &k[static_cast<std::size_t>(j * e)], e);
      largest = std::max(largest, weights[static_cast<std::size_t>(j)]);
    }
    for (int64_t j = 0; j < seen; ++j) sum += std::exp(weights[static_cast<std::size_t>(j)] - largest);
    if (!p.g) log_sum[i] = static_cast<float>(largest + std::log(sum));
    double mean = 0;
    for (int64_t j = 0; j < seen; ++j) {
      double& w = weights[static_cast<std::size_t>(j)];
      w = std::exp(w - static_cast<double>(log_sum[i]));
      for (int64_t c = 0; c < v && !p.g; ++c) {
        out[static_cast<std::size_t>(i * v + c)] += static_cast<float>(w * x[static_cast<std::size_t>(j * v + c)]);
      }
      if (!p.g) continue;
      slopes[static_cast<std::size_t>(j)] =
          dot(&g[static_cast<std::size_t>(i * v)], &x[static_cast<std::size_t>(j * v)], v);
      mean += w * slopes[static_cast<std::size_t>(j)];
    }
    for (int64_t j = 0; j < seen && p.g; ++j) {
      const double w = weights[static_cast<std::size_t>(j)],
                   d = a.scale * w * (slopes[static_cast<std::size_t>(j)] - mean);
      for (int64_t c = 0; c < e; ++c) {
        dq[static_cast<std::size_t>(i * e + c)] += static_cast<float>(d * k[static_cast<std::size_t>(j * e + c)]);
        dk[static_cast<std::size_t>(j * e + c)] += static_cast<float>(d * q[static_cast<std::size_t>(i * e + c)]);
      }
      for (int64_t c = 0; c < v; ++c) {
        dx[static_cast<std::size_t>(j * v + c)] += static_cast<float>(w * g[static_cast<std::size_t>(i * v + c)]);
      }
    }
  }
  if (!p.g) return of(a.out, l, v).template store<T>(p.out, out);
  of(a.dquery, l, e).template store<T>(p.dquery, dq);
  of(a.dkey, s, e).template store<T>(p.dkey, dk);
  of(a.dvalue, s, v).template store<T>(p.dvalue, dx);
}

void queue(const AttentionGraph& a, const Pointers& p) {
  cuda_emulator::enqueue(current_stream(), [a, p] {
    by_dtype(a.dtype, [&](auto element) {
      for (int64_t batch = 0; batch < a.batch; ++batch) {
        for (int64_t head = 0; head < a.heads; ++head) attend_one<decltype(element)>(a, p, batch, head);
      }
    });
  });
}

/// The library copies operands without gaps to where cuDNN takes them; others must be there.
void check_addresses(std::initializer_list<const View*> operands) {
  for (const View* x : operands) {
    if (!x->contiguous && reinterpret_cast<std::uintptr_t>(x->data) % kAttentionBytes != 0) std::abort();
  }
}

}  // namespace

bool has_plan(const AttentionGraph& a) {
  for (const AttentionGraph::Strides* by : {&a.query, &a.key, &a.value, &a.out, &a.g, &a.dquery, &a.dkey, &a.dvalue}) {
    for (const int64_t stride : {by->batch, by->head, by->row}) {
      if (stride * 2 % kAttentionBytes != 0) return false;
    }
  }
  return size_of(a.dtype) == 2 && a.width % 8 == 0 && a.value_width % 8 == 0 && std::max(a.width, a.value_width) <= 256;
}

void attend(const AttentionGraph& graph, const View& out, const View& log_sum, const View& query, const View& key,
            const View& value) {
  if (log_sum.dtype != kFloat32 || !log_sum.contiguous) std::abort();
  check_addresses({&out, &query, &key, &value});
  queue(graph, {.query = query.data, .key = key.data, .value = value.data, .out = out.data, .log_sum = log_sum.data});
}

void attend_backward(const AttentionGraph& graph, const View& dquery, const View& dkey, const View& dvalue,
                     const View& g, const View& out, const View& log_sum, const View& query, const View& key,
                     const View& value) {
  check_addresses({&dquery, &dkey, &dvalue, &g, &out, &query, &key, &value});
  queue(graph, {query.data, key.data, value.data, g.data, out.data, log_sum.data, dquery.data, dkey.data, dvalue.data});
}

/// As cuDNN's other interface does it, and what follows as a kernel.
bool convolve_by_graph(const Conv& conv, const View* bias, bool relu) {
  if (conv.x.dtype == kFloat64 || conv.geometry.groups != 1 || !convolve_by_cudnn(conv)) return false;
  if (!bias && !relu) return true;
  const int64_t plane = conv.out.sizes[2] * conv.out.sizes[3], channels = conv.out.sizes[1], count = conv.out.numel;
  const void* const shift = bias ? bias->data : nullptr;
  const DType shift_dtype = bias ? bias->dtype : kFloat32;
  cuda_emulator::enqueue(current_stream(), [=, out = conv.out.data, dtype = conv.out.dtype, last = conv.channels_last] {
    std::vector<float> shifts(static_cast<std::size_t>(channels));
    if (shift) by_dtype(shift_dtype, [&](auto element) { shifts = values<decltype(element)>(shift, channels); });
    by_dtype(dtype, [&](auto element) {
      std::vector<float> results = values<decltype(element)>(out, count);
      for (int64_t i = 0; i < count; ++i) {
        float& y = results[static_cast<std::size_t>(i)];
        y += shifts[static_cast<std::size_t>((last ? i : i / plane) % channels)];
        if (relu && y < 0) y = 0;
      }
      store<decltype(element)>(out, results);
    });
  });
  return true;
}

std::string why_not(const AttentionGraph&, const AbsentDevice&) { return "emulated"; }
std::string why_not(const Conv&, const View*, bool, const AbsentDevice&) { return "emulated"; }

}  // namespace tendril::cuda
