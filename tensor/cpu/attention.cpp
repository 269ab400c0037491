#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/gemm.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/cpu/visit.h"
#include "tendril/tensor/threads.h"

/// Attention by blocks (Dao et al., "FlashAttention", 2022; Milakov and Gimelshein, "Online normalizer calculation for
/// softmax", 2018): a block of queries meets one block of keys after the other. What it has so far is scaled down where
/// a larger score turns up, so that no more than a block of scores is ever there; backward computes them again.
namespace tendril::cpu {
namespace {

constexpr int64_t kQueries = 128, kKeys = 512;  // a block of float32 scores is a quarter of a MiB: the second cache

/// out [m, n] (row by row, `row` apart) = or += a b, on this thread.
template <class T>
void product(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row,
             int64_t b_column, T* out, int64_t out_row, bool accumulate) {
  multiply_alone(dtype_of<T>, {m, n, k, a, a_row, a_column, b, b_row, b_column, out, out_row, 1, accumulate});
}

template <class T>
bool finite(const T* x, int64_t count) {
  bool all = true;
  for (int64_t i = 0; i < count; ++i) all &= std::isfinite(x[i]);
  return all;
}

/// One problem for one element type.
template <class T>
struct Attention {
  const T *query, *key, *value;
  int64_t batch, length, keys, width, out_width;
  const AttentionMask& mask;
  const AttentionLoops& loop = loops().attention[static_cast<std::size_t>(dtype_of<T>)];

  Attention(const View& q, const View& k, const View& v, const AttentionMask& of)
      : query(q.as<const T>()),
        key(k.as<const T>()),
        value(v.as<const T>()),
        batch(q.sizes[0] * q.sizes[1]),
        length(q.sizes[2]),
        keys(k.sizes[2]),
        width(q.sizes[3]),
        out_width(v.sizes[3]),
        mask(of) {}

  /// How many keys from `first` on, of a block, the last of `rows` queries from `row` on sees by causality.
  int64_t seen(int64_t row, int64_t first) const {
    const int64_t count = std::min(kKeys, keys - first);
    return mask.causal ? std::clamp<int64_t>(row + 1 - first, 0, count) : count;
  }

  /// What the mask adds to the scores of query `row` and `count` keys, in `room` where it must be worked out.
  const T* added(int64_t b, int64_t row, int64_t first, int64_t count, T* room) const {
    if (!mask.data) return nullptr;
    const int64_t at = mask.offsets[b] + row * mask.row + first * mask.column;
    if (mask.is_bool) {
      const auto* const see = static_cast<const bool*>(mask.data) + at;
      for (int64_t i = 0; i < count; ++i) room[i] = see[i * mask.column] ? T(0) : T(-INFINITY);
      return room;
    }
    const T* const from = static_cast<const T*>(mask.data) + at;
    if (mask.column == 1) return from;
    for (int64_t i = 0; i < count; ++i) room[i] = from[i * mask.column];
    return room;
  }

  bool masks() const { return mask.data || mask.causal; }

  /// Calls use(key, score) for each key that query `row` sees: those that the mask hides are not read.
  template <class Use>
  void for_seen(int64_t b, int64_t row, const Use& use) const {
    const T *const q = query + (b * length + row) * width, *const k = key + b * keys * width;
    for (int64_t j = 0; j < (mask.causal ? std::min(keys, row + 1) : keys); ++j) {
      T room;
      const T* const more = added(b, row, j, 1, &room);
      if (more && *more == -std::numeric_limits<T>::infinity()) continue;
      use(j, loop.dot(q, k + j * width, width) * mask.scale + (more ? static_cast<double>(*more) : 0));
    }
  }

  /// The same as `forward` for one query, key by key. A product with a weight of 0 is NaN if a hidden key or value is
  /// infinite or NaN; here it does not take part.
  void forward_of_seen(int64_t b, int64_t row, T* out, T* log_sum) const {
    const T* const v = value + b * keys * out_width;
    double most = -HUGE_VAL, sum = 0;
    for_seen(b, row, [&](int64_t, double score) { most = std::isnan(score) ? score : std::max(most, score); });
    const Scratch<double> total(out_width);
    std::fill_n(total.data(), out_width, 0.0);
    for_seen(b, row, [&](int64_t j, double score) {
      const double weight = std::exp(score - (most == -HUGE_VAL ? 0 : most));
      sum += weight;
      for (int64_t c = 0; c < out_width; ++c) {
        if (weight != 0) total.data()[c] += weight * static_cast<double>(v[j * out_width + c]);
      }
    });
    for (int64_t c = 0; c < out_width; ++c) out[c] = sum == 0 ? T(0) : static_cast<T>(total.data()[c] / sum);
    *log_sum = static_cast<T>(sum == 0 ? HUGE_VAL : most + std::log(sum));
  }

  void forward(int64_t b, int64_t first_row, T* out, T* log_sum, T* scores) const {
    const int64_t rows = std::min(kQueries, length - first_row);
    T* const room = scores + kQueries * kKeys;
    const T *const q = query + (b * length + first_row) * width, *const k = key + b * keys * width,
                   *const v = value + b * keys * out_width;
    T* const o = out + (b * length + first_row) * out_width;
    double most[kQueries], sum[kQueries];
    std::fill_n(most, rows, -HUGE_VAL);
    std::fill_n(sum, rows, 0.0);
    for (int64_t first = 0; first < keys; first += kKeys) {
      const int64_t count = seen(first_row + rows - 1, first);
      if (count == 0) break;
      product<T>(rows, count, width, q, width, 1, k + first * width, 1, width, scores, count, false);
      for (int64_t r = 0; r < rows; ++r) {
        T* const s = scores + r * count;
        const int64_t here = seen(first_row + r, first);
        const double largest = loop.largest(s, here, mask.scale, added(b, first_row + r, first, here, room));
        const double now = std::max(most[r], largest), shift = now == -HUGE_VAL ? 0 : now;
        if (first > 0) {
          const double kept = std::exp(most[r] - shift);
          sum[r] *= kept;
          loop.multiply(o + r * out_width, out_width, kept);
        }
        sum[r] += loop.exponentials(s, here, shift);
        std::fill(s + here, s + count, T(0));
        most[r] = now;
      }
      product<T>(rows, out_width, count, scores, count, 1, v + first * out_width, out_width, 1, o, out_width,
                 first > 0);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const bool nothing = sum[r] == 0;
      if (nothing) {
        std::fill_n(o + r * out_width, out_width, T(0));
      } else {
        loop.multiply(o + r * out_width, out_width, 1 / sum[r]);
      }
      T* const log_of_row = log_sum + b * length + first_row + r;
      *log_of_row = static_cast<T>(nothing ? HUGE_VAL : most[r] + std::log(sum[r]));
      if (masks() && !finite(o + r * out_width, out_width))
        forward_of_seen(b, first_row + r, o + r * out_width, log_of_row);
    }
  }

  struct Gradients {
    T *query, *key, *value;
    const T *g, *out, *log_sum;
  };

  /// The same as `backward`, query by query and key by key; pairs that the mask hides do not take part.
  void backward_of_seen(int64_t b, const Gradients& to, const T* dots) const {
    const T *const q = query + b * length * width, *const k = key + b * keys * width,
                   *const v = value + b * keys * out_width, *const g = to.g + b * length * out_width;
    T *const dq = to.query + b * length * width, *const dk = to.key + b * keys * width,
             *const dv = to.value + b * keys * out_width;
    std::fill_n(dq, length * width, T(0));
    std::fill_n(dk, keys * width, T(0));
    std::fill_n(dv, keys * out_width, T(0));
    for (int64_t i = 0; i < length; ++i) {
      const T* const of_row = g + i * out_width;
      for_seen(b, i, [&](int64_t j, double score) {
        const double weight = std::exp(score - static_cast<double>(to.log_sum[b * length + i]));
        if (weight == 0) return;
        const double d =
            weight * (loop.dot(of_row, v + j * out_width, out_width) - static_cast<double>(dots[i])) * mask.scale;
        for (int64_t c = 0; c < out_width; ++c) dv[j * out_width + c] += static_cast<T>(weight) * of_row[c];
        for (int64_t c = 0; c < width; ++c) {
          dq[i * width + c] += static_cast<T>(d) * k[j * width + c];
          dk[j * width + c] += static_cast<T>(d) * q[i * width + c];
        }
      });
    }
  }

  /// All of one of the batch: its sums over queries and over keys are one thread's, in the same order always.
  void backward(int64_t b, const Gradients& to, T* scores) const {
    T *const products = scores + kQueries * kKeys, *const room = products + kQueries * kKeys,
             *const dots = room + kKeys;
    const T *const q = query + b * length * width, *const k = key + b * keys * width,
                   *const v = value + b * keys * out_width, *const g = to.g + b * length * out_width;
    T *const dq = to.query + b * length * width, *const dk = to.key + b * keys * width,
             *const dv = to.value + b * keys * out_width;
    std::fill_n(dq, length * width, T(0));
    std::fill_n(dk, keys * width, T(0));
    std::fill_n(dv, keys * out_width, T(0));
    for (int64_t i = 0; i < length; ++i) {
      dots[i] = static_cast<T>(loop.dot(g + i * out_width, to.out + (b * length + i) * out_width, out_width));
    }
    for (int64_t first = 0; first < keys; first += kKeys) {
      for (int64_t row = 0; row < length; row += kQueries) {
        const int64_t rows = std::min(kQueries, length - row), count = seen(row + rows - 1, first);
        if (count == 0) continue;
        const T *const some_k = k + first * width, *const some_v = v + first * out_width;
        const T *const some_q = q + row * width, *const some_g = g + row * out_width;
        product<T>(rows, count, width, some_q, width, 1, some_k, 1, width, scores, count, false);
        product<T>(rows, count, out_width, some_g, out_width, 1, some_v, 1, out_width, products, count, false);
        for (int64_t r = 0; r < rows; ++r) {
          T *const s = scores + r * count, *const d = products + r * count;
          const int64_t here = seen(row + r, first);
          loop.gradient(s, d, here, mask.scale, added(b, row + r, first, here, room),
                        static_cast<double>(to.log_sum[b * length + row + r]), static_cast<double>(dots[row + r]));
          std::fill(s + here, s + count, T(0));
          std::fill(d + here, d + count, T(0));
        }
        product<T>(count, out_width, rows, scores, 1, count, some_g, out_width, 1, dv + first * out_width, out_width,
                   true);
        product<T>(rows, width, count, products, count, 1, some_k, width, 1, dq + row * width, width, true);
        product<T>(count, width, rows, products, 1, count, some_q, width, 1, dk + first * width, width, true);
      }
    }
    if (masks() && !(finite(dq, length * width) && finite(dk, keys * width) && finite(dv, keys * out_width)))
      backward_of_seen(b, to, dots);
  }
};

/// Calls body(i, room) for [0, count) on several threads, each with room for `elements` of T.
template <class T, class Body>
void share(int64_t count, int64_t elements, const Body& body) {
  std::atomic<bool> failed = false;
  std::exception_ptr failure;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    try {
      const ThreadLimit alone(1);
      const Scratch<T> room(elements);
      for (int64_t i = begin; i < end; ++i) body(i, room.data());
    } catch (...) {                                                    // no memory
      if (!failed.exchange(true)) failure = std::current_exception();  // read when all have ended
    }
  });
  if (failure) std::rethrow_exception(std::move(failure));
}

}  // namespace

void attention(const View& out, const View& log_sum, const View& query, const View& key, const View& value,
               const AttentionMask& mask) {
  visit_float_or_double(query.dtype, "attention", [&](auto zero) {
    using T = decltype(zero);
    const Attention<T> all(query, key, value, mask);
    took(Path::attention, all.batch * all.length * all.keys);
    const int64_t blocks = (all.length + kQueries - 1) / kQueries;
    share<T>(all.batch * blocks, kQueries * kKeys + kKeys, [&](int64_t i, T* room) {
      all.forward(i / blocks, i % blocks * kQueries, out.as<T>(), log_sum.as<T>(), room);
    });
  });
}

void attention_backward(const View& dquery, const View& dkey, const View& dvalue, const View& g, const View& out,
                        const View& log_sum, const View& query, const View& key, const View& value,
                        const AttentionMask& mask) {
  visit_float_or_double(query.dtype, "attention_backward", [&](auto zero) {
    using T = decltype(zero);
    const Attention<T> all(query, key, value, mask);
    took(Path::attention, all.batch * all.length * all.keys);
    const typename Attention<T>::Gradients to{dquery.as<T>(),  dkey.as<T>(),      dvalue.as<T>(),
                                              g.as<const T>(), out.as<const T>(), log_sum.as<const T>()};
    share<T>(all.batch, 2 * kQueries * kKeys + kKeys + all.length,
             [&](int64_t b, T* room) { all.backward(b, to, room); });
  });
}

}  // namespace tendril::cpu
