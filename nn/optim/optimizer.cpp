#include "tendril/nn/optim/optimizer.h"

#include "tendril/tensor/raw.h"

namespace tendril::optim {

void Optimizer::add_group(const std::vector<Tensor>& params) {
  TENDRIL_CHECK(!params.empty(), name_, ": params: got an empty list, expected at least one parameter");
  std::unordered_map<const TensorImpl*, std::size_t> index = index_;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    TENDRIL_CHECK(param.defined(), name_, ": params[", i, "] is an undefined tensor");
    TENDRIL_CHECK_AS(DTypeError, param.dtype() == kFloat32 || param.dtype() == kFloat64, name_, ": params[", i,
                     "] has dtype ", param.dtype(), ", expected float32 or float64");
    TENDRIL_CHECK(param.device().is_cpu(), name_, ": params[", i, "] is on ", param.device(), ", expected cpu");
    for (int d = 0; d < param.dim(); ++d) {
      TENDRIL_CHECK(param.size(d) <= 1 || param.stride(d) != 0, name_, ": params[", i,
                    "] is expanded, expected a tensor whose elements are all its own");
    }
    TENDRIL_CHECK(param.is_leaf(), name_, ": params[", i,
                  "] is the result of a recorded operation, expected a leaf (detach it first)");
    const auto [first, is_new] = index.emplace(param.impl(), params_.size() + i);
    TENDRIL_CHECK(is_new, name_, ": params[", i, "] of group ", num_groups_, " is also parameter ", first->second,
                  ", expected each parameter once");
  }
  index_ = std::move(index);
  params_.insert(params_.end(), params.begin(), params.end());
  groups_.resize(params_.size(), num_groups_);
  for (const Tensor& param : params) dtypes_.push_back(param.dtype());
  ++num_groups_;
}

std::size_t Optimizer::index_of(const Tensor& param) const {
  const auto found = index_.find(param.impl());
  TENDRIL_CHECK(found != index_.end(), name_, "::state: the tensor is not one of the optimizer's parameters");
  return found->second;
}

void Optimizer::check_gradient(std::size_t index, const Tensor& gradient) const {
  const Tensor& param = params_[index];
  TENDRIL_CHECK_AS(DTypeError, param.dtype() == dtypes_[index], name_, "::step: parameter ", index, " has dtype ",
                   param.dtype(), ", expected ", dtypes_[index],
                   " as when the optimizer was built (cast the module first, then build the optimizer)");
  TENDRIL_CHECK_AS(ShapeError, gradient.sizes() == param.sizes(), name_, "::step: gradient ", index, " has shape ",
                   gradient.sizes(), ", expected the parameter's, ", param.sizes());
  TENDRIL_CHECK_AS(DTypeError, gradient.dtype() == param.dtype(), name_, "::step: gradient ", index, " has dtype ",
                   gradient.dtype(), ", expected the parameter's, ", param.dtype());
  TENDRIL_CHECK(gradient.device() == param.device(), name_, "::step: gradient ", index, " is on ", gradient.device(),
                ", expected the parameter's device, ", param.device());
}

void Optimizer::step() {
  std::vector<Tensor> gradients;
  gradients.reserve(params_.size());
  for (const Tensor& param : params_) gradients.push_back(param.grad());
  step(gradients);
}

void Optimizer::step(const std::vector<Tensor>& gradients) {
  TENDRIL_CHECK(gradients.size() == params_.size(), name_, "::step: got ", gradients.size(), " gradients, expected ",
                params_.size(), ", one per parameter");
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (gradients[i].defined()) check_gradient(i, gradients[i]);
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (gradients[i].defined()) update_one(i, gradients[i]);
  }
}

void Optimizer::zero_grad() {
  for (Tensor& param : params_) param.zero_grad();
}

void Optimizer::update_one(std::size_t index, const Tensor& gradient) {
  const Tensor& param = params_[index];
  // A gradient in the parameter's own storage could overlap what is being written.
  const Tensor grad = gradient.storage() == param.storage() ? raw::clone(gradient) : raw::contiguous(gradient);
  // A parameter with gaps (a slice, a transpose) is rare: it pays for a copy there and back.
  const Tensor dense = raw::contiguous(param);
  if (param.dtype() == kFloat32) {
    update(index, Flat<float>{dense.data<float>(), grad.data<float>(), param.numel()});
  } else {
    update(index, Flat<double>{dense.data<double>(), grad.data<double>(), param.numel()});
  }
  if (!dense.is_same(param)) raw::copy_(param, dense);
  param.storage()->bump_version();
}

template <class T>
T* Optimizer::state_data(Tensor& state, std::size_t index) const {
  if (!state.defined()) state = raw::zeros(params_[index].sizes(), params_[index].dtype());
  return state.data<T>();
}
template float* Optimizer::state_data<float>(Tensor&, std::size_t) const;
template double* Optimizer::state_data<double>(Tensor&, std::size_t) const;

}  // namespace tendril::optim
