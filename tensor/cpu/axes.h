#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tendril/tensor/dims.h"

namespace tendril::cpu {

/// Dimensions of a reduction, longest strides first, neighbours merged. Steps in bytes.
struct Axes {
  int count = 0;
  std::array<int64_t, Dims::kMaxDims> sizes;
  std::array<int64_t, Dims::kMaxDims> x_steps;
  std::array<int64_t, Dims::kMaxDims> out_steps;  // 0 for reduced dimensions

  void add(int64_t size, int64_t x_step, int64_t out_step) {
    int at = count++;
    for (; at > 0 && x_steps[static_cast<std::size_t>(at - 1)] < x_step; --at) {  // insertion sort
      const auto i = static_cast<std::size_t>(at);
      sizes[i] = sizes[i - 1];
      x_steps[i] = x_steps[i - 1];
      out_steps[i] = out_steps[i - 1];
    }
    const auto i = static_cast<std::size_t>(at);
    sizes[i] = size;
    x_steps[i] = x_step;
    out_steps[i] = out_step;
  }
  void merge() {
    int kept = 0;
    for (int d = 1; d < count; ++d) {
      const auto i = static_cast<std::size_t>(d), k = static_cast<std::size_t>(kept);
      if (x_steps[k] == x_steps[i] * sizes[i] && out_steps[k] == out_steps[i] * sizes[i]) {
        sizes[k] *= sizes[i];
        x_steps[k] = x_steps[i];
        out_steps[k] = out_steps[i];
      } else {
        ++kept;
        sizes[k + 1] = sizes[i];
        x_steps[k + 1] = x_steps[i];
        out_steps[k + 1] = out_steps[i];
      }
    }
    if (count > 0) count = kept + 1;
  }
  /// Splits off the innermost dimension; one of size 1 if there is none.
  void take_inner(int64_t& size, int64_t& x_step, int64_t& out_step) {
    size = 1;
    x_step = out_step = 0;
    if (count == 0) return;
    const auto last = static_cast<std::size_t>(--count);
    size = sizes[last];
    x_step = x_steps[last];
    out_step = out_steps[last];
  }
  int64_t numel() const noexcept {
    int64_t product = 1;
    for (int d = 0; d < count; ++d) product *= sizes[static_cast<std::size_t>(d)];
    return product;
  }
  /// Runs `body(x, out)` at `places` indices, in order, from number `first` on.
  template <class Body>
  void for_range(const char* x, char* out, int64_t first, int64_t places, Body&& body) const {
    std::array<int64_t, Dims::kMaxDims> index{};
    for (auto d = static_cast<std::size_t>(count); d-- > 0 && first > 0;) {
      index[d] = first % sizes[d];
      first /= sizes[d];
      x += index[d] * x_steps[d];
      out += index[d] * out_steps[d];
    }
    for (; places > 0; --places) {
      body(x, out);
      for (auto d = static_cast<std::size_t>(count); d-- > 0;) {
        x += x_steps[d];
        out += out_steps[d];
        if (++index[d] < sizes[d]) break;
        x -= x_steps[d] * sizes[d];
        out -= out_steps[d] * sizes[d];
        index[d] = 0;
      }
    }
  }
  template <class Body>
  void for_each(const char* x, char* out, Body&& body) const {
    for_range(x, out, 0, numel(), body);
  }
};

}  // namespace tendril::cpu
