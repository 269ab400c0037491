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
      if (needs_grad(static_cast<int>(i))) dx[i] = g[0].narrow(dim_, start, sizes[i]);
      start += sizes[i];
    }
  }

  std::vector<int64_t> sizes;  ///< along dim

 private:
  void destroy_now() noexcept override { delete this; }

  std::vector<autograd::Edge> edges_;
  autograd::OutputInfo info_;
  Tensor grad_;
  int dim_;
};

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t given_dim) {
  TENDRIL_CHECK(!tensors.empty(), "cat: expected at least one tensor");
  for (const Tensor& x : tensors) TENDRIL_CHECK(x.defined(), "cat: a tensor is undefined");
  const Tensor& first = tensors[0];
  TENDRIL_CHECK_AS(ShapeError, first.dim() > 0, "cat: zero-dimensional tensors cannot be concatenated; use stack");
  const int dim = wrap_dim(given_dim, first.dim(), "cat");
  Dims sizes = first.sizes();
  DType dtype = first.dtype();
  bool recorded = false;
  int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    TENDRIL_CHECK(x.device() == first.device(), "cat: tensor ", i, " is on ", x.device(), ", expected ", first.device(),
                  ", as tensor 0");
    TENDRIL_CHECK_AS(ShapeError, x.dim() == first.dim(), "cat: tensor ", i, " has shape ", x.sizes(),
                     ", which does not fit ", first.sizes());
    sizes[dim] = x.sizes()[dim];
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == sizes, "cat: tensor ", i, " has shape ", x.sizes(),
                     ", which may differ from ", first.sizes(), " only in dim ", dim);
    total += x.sizes()[dim];
    dtype = promote(dtype, x.dtype());
    recorded |= autograd::requires_grad(x);
  }
  sizes[dim] = total;
  const Tensor out = raw::empty(sizes, dtype, first.device());
  int64_t start = 0;
  for (const Tensor& x : tensors) {
    raw::copy_(raw::narrow(out, dim, start, x.sizes()[dim]), x);
    start += x.sizes()[dim];
  }
  if (recorded && autograd::grad_enabled() && is_floating(dtype)) {
    auto* n = new CatBackward(tensors.size(), dim);
    const Ref<autograd::Node> owner(n);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      n->sizes.push_back(tensors[i].sizes()[dim]);
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
    TENDRIL_CHECK(x.defined(), "stack: a tensor is undefined");
    TENDRIL_CHECK(x.device() == tensors[0].device(), "stack: tensor ", rows.size(), " is on ", x.device(),
                  ", expected ", tensors[0].device(), ", as tensor 0");
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == tensors[0].sizes(), "stack: tensors must have one shape, got ",
                     tensors[0].sizes(), " and ", x.sizes());
    rows.push_back(x.unsqueeze(wrap_dim(given_dim, x.dim() + 1, "stack")));
  }
  return cat(rows, given_dim);
}

}  // namespace tendril
