#include "tendril/autograd/ops/combined.h"

#include <algorithm>

#include "tendril/autograd/detail/inplace.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/hooks.h"
#include "tendril/autograd/ops/einsum.h"
#include "tendril/autograd/ops/indexing.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/random.h"
#include "tendril/autograd/ops/sort.h"
#include "tendril/tensor/detail/named_error.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::detail::replace;

bool is_one(Scalar value) { return value.to<double>() == 1; }

void check_factor(Scalar value, DType result, const char* op, const char* name) {
  TENDRIL_CHECK_AS(DTypeError, !value.is_floating() || is_floating(result), op, ": ", name, " is ", value,
                   ", expected an integer for ", result);
}

/// x + value * y, or minus, of the dtype that x and y have together. The product and the sum are computed in it, for
/// half types in float32.
template <class Sum>
Tensor scaled_sum(const Tensor& x, const Tensor& y, Scalar value, const char* op, const Sum& sum) {
  const DType result = raw::result_type(x, y);
  check_factor(value, result, op, "alpha");
  if (is_one(value)) return sum(x, y);
  if (result == kBool) return sum(x, y * value);
  const DType wide = computed_in(result);
  return sum(x.to(wide), y.to(wide) * value).to(result);
}

void check_three(const char* op, const Tensor& x, const Tensor& a, const char* a_name, const Tensor& b,
                 const char* b_name) {
  detail::check_defined(x, op, "x");
  detail::check_defined(a, op, a_name);
  detail::check_defined(b, op, b_name);
}

Tensor with_dims(const Tensor& x, int dims, const char* op) {
  detail::check_defined(x, op, "a tensor");
  if (x.dim() >= dims) return x;
  if (dims == 1) return x.reshape({1});
  if (dims == 2) return x.reshape({1, x.numel()});
  return x.dim() < 2 ? x.reshape({1, x.numel(), 1}) : x.unsqueeze(2);
}

Tensor joined(const std::vector<Tensor>& tensors, int dims, int64_t dim, const char* op) {
  TENDRIL_CHECK(!tensors.empty(), op, ": got no tensors, expected one or more");
  std::vector<Tensor> all;
  for (const Tensor& x : tensors) all.push_back(with_dims(x, dims, op));
  return detail::named_errors(op, {"cat"}, [&] { return cat(all, dims == 1 && all[0].dim() == 1 ? 0 : dim); });
}

}  // namespace

Tensor add(const Tensor& x, const Tensor& y, Scalar alpha) {
  detail::check_defined(x, "add", "x");
  detail::check_defined(y, "add", "y");
  return scaled_sum(x, y, alpha, "add", [](const Tensor& a, const Tensor& b) { return a + b; });
}
Tensor sub(const Tensor& x, const Tensor& y, Scalar alpha) {
  detail::check_defined(x, "sub", "x");
  detail::check_defined(y, "sub", "y");
  return scaled_sum(x, y, alpha, "sub", [](const Tensor& a, const Tensor& b) { return a - b; });
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  check_three("addcmul", x, a, "a", b, "b");
  const DType result = raw::result_type(x, a, b), wide = computed_in(result);
  check_factor(value, result, "addcmul", "value");
  const Tensor product = a.to(wide) * b.to(wide);
  return (x.to(wide) + (is_one(value) ? product : product * value)).to(result);
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  check_three("addcdiv", x, a, "a", b, "b");
  TENDRIL_CHECK_AS(DTypeError, is_floating(a.dtype()) || is_floating(b.dtype()), "addcdiv: got ", a.dtype(), " by ",
                   b.dtype(), ", expected one of them floating");
  const DType result = raw::result_type(x, a, b), wide = computed_in(result);
  const Tensor quotient = a.to(wide) / b.to(wide);
  return (x.to(wide) + (is_one(value) ? quotient : quotient * value)).to(result);
}

Tensor lerp(const Tensor& x, const Tensor& end, const Tensor& weight) {
  check_three("lerp", x, end, "end", weight, "weight");
  detail::check_floating(x, "lerp");
  const DType result = raw::result_type(x, end, weight), wide = computed_in(result);
  if (x.dtype() != wide || end.dtype() != wide || weight.dtype() != wide)
    return lerp(x.to(wide), end.to(wide), weight.to(wide)).to(result);
  // From the nearer end, so that both ends are exact.
  const Tensor way = end - x;
  return tendril::where(weight.abs() < 0.5, x + weight * way, end - way * (1 - weight));
}

Tensor lerp(const Tensor& x, const Tensor& end, double weight) {
  detail::check_defined(x, "lerp", "x");
  detail::check_defined(end, "lerp", "end");
  detail::check_floating(x, "lerp");
  const DType result = raw::result_type(x, end), wide = computed_in(result);
  if (x.dtype() != wide || end.dtype() != wide) return lerp(x.to(wide), end.to(wide), weight).to(result);
  const Tensor way = end - x;
  return std::abs(weight) < 0.5 ? x + way * weight : end - way * (1 - weight);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  detail::check_defined(a, "mv", "a");
  detail::check_defined(b, "mv", "b");
  TENDRIL_CHECK_AS(ShapeError, a.dim() == 2 && b.dim() == 1 && a.sizes()[1] == b.sizes()[0],
                   "mv: expected a matrix and a vector that fits, got shapes ", a.sizes(), " and ", b.sizes());
  return a.matmul(b);
}

Tensor take(const Tensor& x, const Tensor& index) {
  detail::check_defined(x, "take", "x");
  detail::check_defined(index, "take", "index");
  TENDRIL_CHECK_AS(DTypeError, index.dtype() == kInt64, "take: index: got ", index.dtype(), ", expected int64");
  const Tensor places =
      raw::where(raw::compare(Compare::lt, index, 0), raw::binary(Binary::add, index, x.numel()), index);
  return x.reshape({-1}).index_select(0, places.reshape({-1})).reshape(index.sizes());
}

std::tuple<Tensor, Tensor> var_mean(const Tensor& x, const Dims& dims, Flag unbiased, Flag keepdim) {
  return {x.var(dims, unbiased, keepdim), x.mean(dims, keepdim)};
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& x, const Dims& dims, Flag unbiased, Flag keepdim) {
  return {x.std(dims, unbiased, keepdim), x.mean(dims, keepdim)};
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  detail::check_defined(x, "normalize", "x");
  return x / x.norm(p, {dim}, true).clamp(eps, std::nullopt);
}

Tensor hstack(const std::vector<Tensor>& tensors) { return joined(tensors, 1, 1, "hstack"); }
Tensor vstack(const std::vector<Tensor>& tensors) { return joined(tensors, 2, 0, "vstack"); }
Tensor dstack(const std::vector<Tensor>& tensors) { return joined(tensors, 3, 2, "dstack"); }

Tensor Tensor::add(const Tensor& other, Scalar alpha) const { return tendril::add(*this, other, alpha); }
Tensor Tensor::sub(const Tensor& other, Scalar alpha) const { return tendril::sub(*this, other, alpha); }
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, Scalar value) const {
  return tendril::addcmul(*this, a, b, value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, Scalar value) const {
  return tendril::addcdiv(*this, a, b, value);
}
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const { return tendril::lerp(*this, end, weight); }
Tensor Tensor::lerp(const Tensor& end, double weight) const { return tendril::lerp(*this, end, weight); }
Tensor Tensor::isclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return tendril::isclose(*this, other, rtol, atol, equal_nan);
}
Tensor Tensor::mv(const Tensor& other) const { return tendril::mv(*this, other); }
Tensor Tensor::take(const Tensor& index) const { return tendril::take(*this, index); }

const Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, Scalar value) const {
  replace(*this, "addcmul_", [&](const Tensor& x) { return tendril::addcmul(x, a, b, value); });
  return *this;
}
const Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, Scalar value) const {
  replace(*this, "addcdiv_", [&](const Tensor& x) { return tendril::addcdiv(x, a, b, value); });
  return *this;
}
const Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) const {
  replace(*this, "lerp_", [&](const Tensor& x) { return tendril::lerp(x, end, weight); });
  return *this;
}
const Tensor& Tensor::lerp_(const Tensor& end, double weight) const {
  replace(*this, "lerp_", [&](const Tensor& x) { return tendril::lerp(x, end, weight); });
  return *this;
}

// Methods that are functions of other families.
Tensor Tensor::where(const Tensor& mask, const Tensor& other) const { return tendril::where(mask, *this, other); }
bool Tensor::equal(const Tensor& other) const { return tendril::equal(*this, other); }
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan) const {
  return tendril::allclose(*this, other, rtol, atol, equal_nan);
}
Tensor Tensor::outer(const Tensor& other) const { return tendril::outer(*this, other); }
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return tendril::addmm(*this, a, b, beta, alpha);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, double beta, double alpha) const {
  return tendril::baddbmm(*this, a, b, beta, alpha);
}
Tensor Tensor::index(std::initializer_list<Index> indices) const { return tendril::index(*this, indices); }
Tensor Tensor::take_along_dim(const Tensor& index, int64_t dim) const {
  return tendril::take_along_dim(*this, index, dim);
}
const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& values, bool accumulate) const {
  return tendril::index_put_(*this, indices, values, accumulate);
}
const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, Scalar value) const {
  (*this)[indices] = value;
  return *this;
}
std::tuple<Tensor, Tensor> Tensor::kthvalue(int64_t k, int64_t dim, Flag keepdim) const {
  return tendril::kthvalue(*this, k, dim, keepdim);
}
Unique Tensor::unique(std::optional<int64_t> dim) const { return tendril::unique(*this, dim); }
Tensor Tensor::bincount(int64_t minlength) const { return tendril::bincount(*this, minlength); }
Tensor Tensor::histc(int64_t bins, std::optional<double> low, std::optional<double> high) const {
  return tendril::histc(*this, bins, low, high);
}
Tensor Tensor::multinomial(int64_t samples, bool replacement) const {
  return tendril::multinomial(*this, samples, replacement);
}
Tensor Tensor::cpu() const { return to(kCPU); }
Tensor Tensor::cuda() const { return is_cuda() ? *this : to(Device{.type = DeviceType::cuda}); }
Tensor Tensor::new_empty(const Dims& sizes) const {
  detail::check_defined(*this, "new_empty");
  return raw::empty(sizes, dtype(), device());
}
Tensor Tensor::new_zeros(const Dims& sizes) const {
  detail::check_defined(*this, "new_zeros");
  return raw::zeros(sizes, dtype(), device());
}
Tensor Tensor::new_ones(const Dims& sizes) const {
  detail::check_defined(*this, "new_ones");
  return raw::full(sizes, 1, dtype(), device());
}
Tensor Tensor::new_full(const Dims& sizes, Scalar value) const {
  detail::check_defined(*this, "new_full");
  detail::check_fits(value, dtype(), "new_full");
  return raw::full(sizes, value, dtype(), device());
}
autograd::HookHandle Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  return autograd::register_hook(*this, std::move(hook));
}

}  // namespace tendril
