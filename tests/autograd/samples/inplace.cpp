#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/samples/samples.h"

namespace tendril::samples {

namespace {

/// The in-place operation on an intermediate result, and on a view of one.
template <class F>
void add_both(std::vector<OpSample>& all, const std::string& name, bool two_operands, F change) {
  const std::vector<std::vector<Dims>> one = {{{2, 3}}, {{4}}, {{1, 1}}, {{0, 3}}};
  const std::vector<std::vector<Dims>> two = {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{4}, {1}}, {{1}, {1}}, {{0, 3}, {3}}};
  const auto& shapes = two_operands ? two : one;
  all.push_back({name,
                 [change](const std::vector<Tensor>& x) {
                   Tensor y = x[0] * 1.5;
                   change(y, x.back());
                   return std::vector{y};
                 },
                 shapes});
  all.push_back({name + " on a view",
                 [change](const std::vector<Tensor>& x) {
                   Tensor y = (x[0] * 1.5).reshape({-1}).unsqueeze(0);
                   Tensor base = x[0].unsqueeze(0) * 0.5;
                   Tensor part = base.select(0, 0);
                   change(part, x.back());
                   return std::vector{base, part * 2, y};
                 },
                 shapes});
}

}  // namespace

std::vector<OpSample> inplace_samples() {
  std::vector<OpSample> all;
  add_both(all, "add_", true, [](Tensor& y, const Tensor& x) { y.add_(x); });
  add_both(all, "add_ with alpha", true, [](Tensor& y, const Tensor& x) { y.add_(x, 0.3); });
  add_both(all, "sub_", true, [](Tensor& y, const Tensor& x) { y.sub_(x); });
  add_both(all, "mul_", true, [](Tensor& y, const Tensor& x) { y.mul_(x); });
  add_both(all, "div_", true, [](Tensor& y, const Tensor& x) { y.div_(x); });
  add_both(all, "copy_", true, [](Tensor& y, const Tensor& x) { y.copy_(x * 2); });
  add_both(all, "add_ a number", false, [](Tensor& y, const Tensor&) { y.add_(0.5); });
  add_both(all, "sub_ a number", false, [](Tensor& y, const Tensor&) { y.sub_(0.5); });
  add_both(all, "mul_ a number", false, [](Tensor& y, const Tensor&) { y.mul_(0.5); });
  add_both(all, "div_ a number", false, [](Tensor& y, const Tensor&) { y.div_(0.5); });
  add_both(all, "relu_", false, [](Tensor& y, const Tensor&) { y.relu_(); });
  add_both(all, "clamp_", false, [](Tensor& y, const Tensor&) { y.clamp_(-1, 1); });
  for (auto sample = all.end() - 2; sample != all.end(); ++sample) {  // rounding to a half type may cross a bound
    sample->kink = [](const std::vector<Tensor>& x) { return (x[0] * 1.5).abs() - 1; };
  }
  add_both(all, "fill_", false, [](Tensor& y, const Tensor& x) { y.fill_(2).add_(x); });
  add_both(all, "masked_fill_", false, [](Tensor& y, const Tensor& x) { y.masked_fill_(x.detach() > 0, 2); });
  // Along the last dimension, each element to another place.
  const auto turned = [](const Tensor& y) {
    const int64_t size = y.size(-1);
    return (arange(size) * -1 + (size - 1)).expand(y.sizes());
  };
  const auto last = [](const Tensor& y) { return y.size(-1) == 0 ? zeros({0}, {.dtype = kInt64}) : tensor({0}); };
  add_both(all, "scatter_", false, [=](Tensor& y, const Tensor& x) { y.scatter_(-1, turned(y), x * 2); });
  add_both(all, "scatter_ a number", false,
           [=](Tensor& y, const Tensor&) { y.scatter_(-1, turned(y).narrow(-1, 0, y.size(-1) / 2), 0.5); });
  add_both(all, "scatter_add_", false, [=](Tensor& y, const Tensor& x) { y.scatter_add_(-1, turned(y), x * 2); });
  add_both(all, "index_add_", false,
           [=](Tensor& y, const Tensor& x) { y.index_add_(-1, last(y), x.narrow(-1, 0, last(y).numel())); });
  add_both(all, "index_fill_", false, [=](Tensor& y, const Tensor&) { y.index_fill_(-1, last(y), 0.5); });
  add_both(all, "index_copy_", false,
           [=](Tensor& y, const Tensor& x) { y.index_copy_(-1, last(y), x.narrow(-1, 0, last(y).numel())); });
  add_both(all, "cumsum_", false, [](Tensor& y, const Tensor&) { y.cumsum_(-1); });
  add_both(all, "cumprod_", false, [](Tensor& y, const Tensor&) { y.cumprod_(-1); });
  const auto triangle = [&](const std::string& name, auto change) {
    all.push_back({name,
                   [change](const std::vector<Tensor>& x) {
                     Tensor y = x[0] * 1.5;
                     change(y);
                     Tensor base = x[0] * x[0], part = base.transpose(-1, -2);
                     change(part);
                     return std::vector{y, base};
                   },
                   {{{2, 3}}, {{2, 3, 3}}, {{1, 1}}}});
  };
  triangle("tril_", [](Tensor& y) { y.tril_(); });
  triangle("triu_", [](Tensor& y) { y.triu_(1); });
  return all;
}

}  // namespace tendril::samples
