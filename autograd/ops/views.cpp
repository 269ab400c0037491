// Views: results share the elements of their base, and an in-place operation on either is seen, and recorded, in both.
#include "tendril/autograd/detail/window.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/rearrange.h"
#include "tendril/tensor/layout.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;
using autograd::Window;

Tensor make_view(const Tensor& x, const Layout& layout) {
  Tensor out = raw::viewed(x, layout);
  autograd::mark_view(out, x);
  return out;
}

Layout layout_of(const Tensor& x, const char* op) {
  detail::check_defined(x, op);
  return {x.sizes(), x.strides(), x.storage_offset()};
}

struct ReshapeBackward : NodeOf<ReshapeBackward, 1> {
  static constexpr const char* kName = "ReshapeBackward";
  Dims sizes;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.reshape(sizes); }
};

/// A view with the same elements in the same order.
Tensor reshaped(const Tensor& x, const Layout& layout) {
  Tensor out = make_view(x, layout);
  if (auto* n = track<ReshapeBackward>(out, x)) n->sizes = x.sizes();
  return out;
}

struct ExpandBackward : NodeOf<ExpandBackward, 1> {
  static constexpr const char* kName = "ExpandBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g; }  // the engine sums it to x's shape
};

struct PermuteBackward : NodeOf<PermuteBackward, 1> {
  static constexpr const char* kName = "PermuteBackward";
  Dims inverse;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.permute(inverse); }
};

/// A part of x, described as if x were contiguous: that is how its gradient will be laid out.
template <class Narrow>
Tensor part_of(const Tensor& x, const char* op, const char* name, Narrow narrow) {
  Tensor out = make_view(x, narrow(layout_of(x, op)));
  if (autograd::grad_enabled() && autograd::requires_grad(x)) {
    Window window = Window::of(x.sizes());
    const Layout part = narrow(Layout{window.base_sizes, window.base_strides, 0});
    window.sizes = part.sizes;
    window.strides = part.strides;
    window.offset = part.offset;
    autograd::record_window(out, x, window, name);
  }
  return out;
}

/// Split, chunk and unbind: one node for all parts, so that the gradients are joined once.
class PartsBackward : public autograd::Node {
 public:
  static void* operator new(std::size_t bytes) { return memory::allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { memory::release(block, bytes); }

  PartsBackward(bool stacked, int dim, std::size_t parts)
      : Node({&edge_, nullptr, nullptr, nullptr, 1, 0, 0}), stacked_(stacked), dim_(dim), infos_(parts), grads_(parts) {
    set_parts({&edge_, infos_.data(), grads_.data(), nullptr, 1, static_cast<uint32_t>(parts), 0});
  }
  const char* name() const noexcept override { return stacked_ ? "UnbindBackward" : "SplitBackward"; }

  void apply(std::span<Tensor> g, std::span<Tensor> dx) override {
    std::vector<Tensor> all(g.begin(), g.end());
    const auto first = std::find_if(all.begin(), all.end(), [](const Tensor& one) { return one.defined(); });
    const DType dtype = first->dtype();
    const Device device = first->device();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].defined()) all[i] = raw::zeros(infos_[i].sizes, dtype, device);
    }
    dx[0] = stacked_ ? stack(all, dim_) : cat(all, dim_);
  }

 private:
  void destroy_now() noexcept override { delete this; }

  autograd::Edge edge_;
  bool stacked_;
  int dim_;
  std::vector<autograd::OutputInfo, memory::Allocator<autograd::OutputInfo>> infos_;
  std::vector<Tensor, memory::Allocator<Tensor>> grads_;
};

void record_parts(const std::vector<Tensor>& parts, const Tensor& x, bool stacked, int dim) {
  for (const Tensor& part : parts) part.impl()->multi_output_view = true;
  if (!autograd::grad_enabled() || !autograd::requires_grad(x) || !is_floating(x.dtype()) || parts.empty()) return;
  auto node = Ref<autograd::Node>::first(new PartsBackward(stacked, dim, parts.size()));
  node->set_edge(0, autograd::gradient_edge(x));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    node->set_output(static_cast<int>(i), parts[i]);
    autograd::set_history(parts[i], node, static_cast<uint32_t>(i));
  }
}

}  // namespace

Tensor Tensor::view(const Dims& sizes) const {
  detail::check_defined(*this, "view");
  const Dims full = layout::infer_size(sizes, numel(), "view");
  const auto layout = layout::view(layout_of(*this, "view"), full);
  TENDRIL_CHECK_AS(ShapeError, layout, "view: a tensor of sizes ", this->sizes(), " and strides ", strides(),
                   " cannot be seen as ", full, " without a copy; use reshape");
  return reshaped(*this, *layout);
}

Tensor Tensor::reshape(const Dims& sizes) const {
  detail::check_defined(*this, "reshape");
  const Dims full = layout::infer_size(sizes, numel(), "reshape");
  if (const auto layout = layout::view(layout_of(*this, "view"), full)) return reshaped(*this, *layout);
  return contiguous().view(full);  // a clone of an image in channels-last order would have that order too
}

Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  detail::check_defined(*this, "flatten");
  return reshape(layout::flatten_sizes(sizes(), start_dim, end_dim));
}

Tensor Tensor::expand(const Dims& sizes) const {
  Tensor out = make_view(*this, layout::expand(layout_of(*this, "expand"), sizes));
  track<ExpandBackward>(out, *this);
  return out;
}

Tensor Tensor::permute(const Dims& dims) const {
  Tensor out = make_view(*this, layout::permute(layout_of(*this, "permute"), dims));
  if (auto* n = track<PermuteBackward>(out, *this)) {
    n->inverse = Dims::filled(dim(), 0);
    for (int d = 0; d < dim(); ++d) n->inverse[wrap_dim(dims[d], dim(), "permute")] = d;
  }
  return out;
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  Tensor out = make_view(*this, layout::transpose(layout_of(*this, "transpose"), dim0, dim1));
  if (auto* n = track<PermuteBackward>(out, *this)) {
    for (int d = 0; d < dim(); ++d) n->inverse.push_back(d);
    if (dim() > 0)
      std::swap(n->inverse[wrap_dim(dim0, dim(), "transpose")], n->inverse[wrap_dim(dim1, dim(), "transpose")]);
  }
  return out;
}

Tensor Tensor::t() const {
  detail::check_defined(*this, "t");
  TENDRIL_CHECK_AS(ShapeError, dim() <= 2, "t: expected at most 2 dimensions, got shape ", sizes());
  return dim() < 2 ? *this : transpose(0, 1);
}

Tensor Tensor::squeeze() const { return reshaped(*this, layout::squeeze(layout_of(*this, "squeeze"))); }
Tensor Tensor::squeeze(int64_t dim) const { return reshaped(*this, layout::squeeze(layout_of(*this, "squeeze"), dim)); }
Tensor Tensor::unsqueeze(int64_t dim) const {
  return reshaped(*this, layout::unsqueeze(layout_of(*this, "unsqueeze"), dim));
}

Tensor Tensor::select(int64_t dim, int64_t index) const {
  return part_of(*this, "select", "SelectBackward", [&](const Layout& x) { return layout::select(x, dim, index); });
}
Tensor Tensor::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  return part_of(*this, "slice", "SliceBackward",
                 [&](const Layout& x) { return layout::slice(x, dim, start, end, step); });
}
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return part_of(*this, "narrow", "SliceBackward",
                 [&](const Layout& x) { return layout::narrow(x, dim, start, length); });
}

Tensor Tensor::diagonal(int64_t offset, int64_t dim0, int64_t dim1) const {
  return part_of(*this, "diagonal", "DiagonalBackward",
                 [&](const Layout& x) { return layout::diagonal(x, offset, dim0, dim1); });
}
Tensor Tensor::unflatten(int64_t given_dim, const Dims& sizes) const {
  detail::check_defined(*this, "unflatten");
  TENDRIL_CHECK_AS(ShapeError, dim() > 0 && !sizes.empty(), "unflatten: got shape ", this->sizes(), " and sizes ",
                   sizes, ", expected a dimension and one or more sizes");
  const int d = wrap_dim(given_dim, dim(), "unflatten");
  const Dims parts = layout::infer_size(sizes, this->sizes()[d], "unflatten");
  TENDRIL_CHECK_AS(ShapeError, numel_of(parts) == this->sizes()[d], "unflatten: sizes ", sizes,
                   " do not make the size of dim ", d, " of shape ", this->sizes());
  Dims all;
  for (int i = 0; i < dim(); ++i) {
    if (i != d) all.push_back(this->sizes()[i]);
    for (int64_t part : i == d ? parts : Dims()) all.push_back(part);
  }
  return view(all);
}

std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t given_dim) const {
  detail::check_defined(*this, "split");
  TENDRIL_CHECK_AS(ShapeError, dim() > 0, "split: expected at least one dimension");
  const int d = wrap_dim(given_dim, dim(), "split");
  int64_t total = 0;
  for (int64_t size : sizes) {
    TENDRIL_CHECK_AS(ShapeError, size >= 0 && size <= this->sizes()[d] - total, "split: sizes ", Dims(sizes),
                     " must be non-negative and add up to ", this->sizes()[d], ", the size of dim ", d, " of shape ",
                     this->sizes());
    total += size;
  }
  TENDRIL_CHECK_AS(ShapeError, total == this->sizes()[d], "split: sizes add up to ", total, " instead of ",
                   this->sizes()[d], ", the size of dim ", d, " of shape ", this->sizes());
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(make_view(*this, layout::narrow(layout_of(*this, "narrow"), d, start, size)));
    start += size;
  }
  record_parts(parts, *this, false, d);
  return parts;
}

std::vector<Tensor> Tensor::split(int64_t split_size, int64_t given_dim) const {
  detail::check_defined(*this, "split");
  TENDRIL_CHECK_AS(ShapeError, dim() > 0, "split: expected at least one dimension");
  const int64_t size = sizes()[wrap_dim(given_dim, dim(), "split")];
  TENDRIL_CHECK(split_size > 0 || (split_size == 0 && size == 0), "split: the size of a part must be positive, got ",
                split_size);
  std::vector<int64_t> parts;
  for (int64_t left = size; left > 0; left -= split_size) parts.push_back(std::min(left, split_size));
  if (parts.empty()) parts.push_back(0);
  return split(parts, given_dim);
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t given_dim) const {
  detail::check_defined(*this, "chunk");
  TENDRIL_CHECK(chunks > 0, "chunk: the number of chunks must be positive, got ", chunks);
  TENDRIL_CHECK_AS(ShapeError, dim() > 0, "chunk: expected at least one dimension");
  const int64_t size = sizes()[wrap_dim(given_dim, dim(), "chunk")];
  if (size == 0) return split(std::vector<int64_t>(static_cast<std::size_t>(chunks), 0), given_dim);
  return split((size - 1) / chunks + 1, given_dim);
}

std::vector<Tensor> Tensor::unbind(int64_t given_dim) const {
  detail::check_defined(*this, "unbind");
  TENDRIL_CHECK_AS(ShapeError, dim() > 0, "unbind: expected at least one dimension");
  const int d = wrap_dim(given_dim, dim(), "unbind");
  std::vector<Tensor> parts;
  parts.reserve(static_cast<std::size_t>(sizes()[d]));
  for (int64_t i = 0; i < sizes()[d]; ++i)
    parts.push_back(make_view(*this, layout::select(layout_of(*this, "select"), d, i)));
  record_parts(parts, *this, true, d);
  return parts;
}

}  // namespace tendril
