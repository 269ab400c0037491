#include "tendril/autograd/ops/join.h"

#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

class CatBackward : public autograd::Node {
 public:
  CatBackward(std::size_t inputs, int dim)
      : Node({nullptr, &info_, &grad_, nullptr, 0, 1, 0}), edges_(inputs), dim_(dim) {
    set_parts({edges_.data(), &info_, &grad_, nullptr, static_cast<uint32_t>(inputs), 1, 0});
  }
  const char* name() const noexcept override { return "CatBackward"; }

  void apply(std::span<Tensor> g, std::span<Tensor> dx) override {
    int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (needs_grad(static_cast<int>(i))) {
        dx[i] =
            sizes[i] == kNothing ? raw::zeros({0}, g[0].dtype(), g[0].device()) : g[0].narrow(dim_, start, sizes[i]);
      }
      if (sizes[i] != kNothing) start += sizes[i];
    }
  }

  static constexpr int64_t kNothing = -1;
  std::vector<int64_t> sizes;  ///< along dim; kNothing for an input of shape [0] among others of more dimensions

 private:
  void destroy_now() noexcept override { delete this; }

  std::vector<autograd::Edge> edges_;
  autograd::OutputInfo info_;
  Tensor grad_;
  int dim_;
};

/// The first tensor that is not of shape [0], if there is one: all others must fit it.
const Tensor& model(const std::vector<Tensor>& tensors) {
  for (const Tensor& x : tensors) {
    if (x.sizes() != Dims{0}) return x;
  }
  return tensors[0];
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t given_dim) {
  TENDRIL_CHECK(!tensors.empty(), "cat: expected at least one tensor");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TENDRIL_CHECK(tensors[i].defined(), "cat: tensor ", i, " is undefined");
  }
  const Tensor& first = model(tensors);
  TENDRIL_CHECK_AS(ShapeError, first.dim() > 0, "cat: zero-dimensional tensors cannot be concatenated; use stack");
  const int dim = wrap_dim(given_dim, first.dim(), "cat");
  Dims sizes = first.sizes();
  DType dtype = first.dtype();
  bool recorded = false;
  int64_t total = 0;
  const auto adds_nothing = [&](const Tensor& x) { return first.dim() != 1 && x.sizes() == Dims{0}; };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    TENDRIL_CHECK(x.device() == tensors[0].device(), "cat: tensor ", i, " is on ", x.device(), ", expected ",
                  tensors[0].device(), ", as tensor 0");
    dtype = promote(dtype, x.dtype());
    recorded |= autograd::requires_grad(x);
    if (adds_nothing(x)) continue;
    TENDRIL_CHECK_AS(ShapeError, x.dim() == first.dim(), "cat: tensor ", i, " has shape ", x.sizes(),
                     ", which does not fit ", first.sizes());
    sizes[dim] = x.sizes()[dim];
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == sizes, "cat: tensor ", i, " has shape ", x.sizes(),
                     ", which may differ from ", first.sizes(), " only in dim ", dim);
    total += x.sizes()[dim];
  }
  sizes[dim] = total;
  Tensor out = raw::empty(sizes, dtype, first.device());
  int64_t start = 0;
  for (const Tensor& x : tensors) {
    if (adds_nothing(x)) continue;
    raw::copy_(raw::narrow(out, dim, start, x.sizes()[dim]), x);
    start += x.sizes()[dim];
  }
  if (recorded && autograd::grad_enabled() && is_floating(dtype)) {
    auto* n = new CatBackward(tensors.size(), dim);
    const Ref<autograd::Node> owner(n);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      n->sizes.push_back(adds_nothing(tensors[i]) ? CatBackward::kNothing : tensors[i].sizes()[dim]);
      n->set_edge(static_cast<int>(i), autograd::gradient_edge(tensors[i]));
    }
    n->set_output(0, out);
    autograd::set_history(out, owner);
  }
  return out;
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t given_dim) {
  TENDRIL_CHECK(!tensors.empty(), "stack: expected at least one tensor");
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (const Tensor& x : tensors) {
    TENDRIL_CHECK(x.defined(), "stack: tensor ", rows.size(), " is undefined");
    TENDRIL_CHECK(x.device() == tensors[0].device(), "stack: tensor ", rows.size(), " is on ", x.device(),
                  ", expected ", tensors[0].device(), ", as tensor 0");
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == tensors[0].sizes(), "stack: tensors must have one shape, got ",
                     tensors[0].sizes(), " and ", x.sizes());
    rows.push_back(x.unsqueeze(wrap_dim(given_dim, x.dim() + 1, "stack")));
  }
  return cat(rows, given_dim);
}

}  // namespace tendril
