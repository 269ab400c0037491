#include "tendril/autograd/detail/window.h"

#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/reduce.h"
#include "tendril/tensor/raw.h"

namespace tendril::autograd {

namespace {

struct WindowBackward : NodeOf<WindowBackward, 1> {
  static constexpr const char* kName = "WindowBackward";
  const char* name() const noexcept override { return label; }
  const char* label = kName;
  Window window;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = embed_window(sum_to(g, window.sizes), window); }
};

struct EmbedBackward : NodeOf<EmbedBackward, 1> {
  static constexpr const char* kName = "EmbedBackward";
  Window window;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = take_window(g, window); }
};

struct CopySlices : NodeOf<CopySlices, 2> {
  static constexpr const char* kName = "CopySlices";
  Window window;

  void backward(const Tensor& g, std::span<Tensor> dx) {
    if (needs_grad(0)) dx[0] = put_window(g, raw::zeros(window.sizes, g.dtype(), g.device()), window);
    if (needs_grad(1)) dx[1] = take_window(g, window);
  }
};

/// A new tensor laid out as the window's base is.
Tensor in_base_layout(const Tensor& x, const Window& window) {
  Tensor base = raw::empty_strided(window.base_sizes, window.base_strides, x.dtype(), x.device());
  raw::copy_(base, x);
  return base;
}

Tensor look(const Tensor& base, const Window& window) {
  // A window of nothing, and a base of nothing, may be said to lie anywhere, also outside of the storage.
  const int64_t start = numel_of(window.sizes) == 0 ? 0 : base.storage_offset() + window.offset;
  return raw::as_strided(base, window.sizes, window.strides, start);
}

}  // namespace

Tensor take_window(const Tensor& base, const Window& window) {
  const Tensor laid_out = base.strides() == window.base_strides ? detail::alias(base) : in_base_layout(base, window);
  Tensor out = raw::clone(look(laid_out, window));
  record_window(out, base, window, "WindowBackward");
  return out;
}

Tensor embed_window(const Tensor& part, const Window& window) {
  Tensor out = raw::empty_strided(window.base_sizes, window.base_strides, part.dtype(), part.device());
  raw::fill_(out, 0);
  raw::copy_(look(out, window), part);
  if (auto* n = track<EmbedBackward>(out, part)) n->window = window;
  return out;
}

Tensor put_window(const Tensor& base, const Tensor& part, const Window& window) {
  Tensor out = in_base_layout(base, window);
  raw::copy_(look(out, window), part);
  record_copy_slices(out, base, part, window);
  return out;
}

void record_copy_slices(const Tensor& out, const Tensor& base, const Tensor& part, const Window& window) {
  if (auto* n = track<CopySlices>(out, base, part)) n->window = window;
}

void record_window(const Tensor& view, const Tensor& base, const Window& window, const char* name) {
  if (auto* n = track<WindowBackward>(view, base)) {
    n->window = window;
    n->label = name;
  }
}

Window window_of_view(const TensorImpl& view) {
  const TensorImpl& base = *view.view_base;
  Window window{base.sizes, base.strides, view.sizes, view.strides, view.offset - base.offset};
  for (int d = 0; d < window.sizes.size(); ++d) {
    if (window.strides[d] == 0) window.sizes[d] = 1;
  }
  return window;
}

}  // namespace tendril::autograd
