#include "tendril/nn/optim/optimizer.h"

#include <algorithm>
#include <memory>

#include "tendril/autograd/grad_mode.h"
#include "tendril/nn/optim/detail/validate.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

namespace tendril::optim {

void Optimizer::add_group(const std::vector<Tensor>& params) {
  TENDRIL_CHECK(!params.empty(), name_, ": params: got an empty list, expected at least one parameter");
  std::unordered_map<const TensorImpl*, std::size_t> index = index_;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& param = params[i];
    TENDRIL_CHECK(param.defined(), name_, ": params[", i, "] is an undefined tensor");
    TENDRIL_CHECK_AS(DTypeError, is_floating(param.dtype()), name_, ": params[", i, "] has dtype ", param.dtype(),
                     ", expected a floating one");
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
  for (const Tensor& param : params) {
    dtypes_.push_back(param.dtype());
    devices_.push_back(param.device());
  }
  masters_.resize(params_.size());
  ++num_groups_;
}

std::size_t Optimizer::index_of(const Tensor& param, const char* op) const {
  const auto found = index_.find(param.impl());
  TENDRIL_CHECK(found != index_.end(), name_, "::", op, ": the tensor is not one of the optimizer's parameters");
  return found->second;
}

void Optimizer::check_as_given(std::size_t index) const {
  const Tensor& param = params_[index];
  TENDRIL_CHECK_AS(DTypeError, param.dtype() == dtypes_[index], name_, "::step: parameter ", index, " has dtype ",
                   param.dtype(), ", expected ", dtypes_[index],
                   " as when the optimizer was built (cast the module first, then build the optimizer)");
  TENDRIL_CHECK(param.device() == devices_[index], name_, "::step: parameter ", index, " is on ", param.device(),
                ", expected ", devices_[index],
                " as when the optimizer was built (move the module first, then build the optimizer)");
}

void Optimizer::check_gradient(std::size_t index, const Tensor& gradient) const {
  check_as_given(index);
  const Tensor& param = params_[index];
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
  tendril::detail::Recorder* const recorder = tendril::detail::recorder();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!gradients[i].defined()) continue;
    check_gradient(i, gradients[i]);
    TENDRIL_CHECK(!recorder || devices_[i] == recorder->device(), name_, "::step: parameter ", i, " is on ",
                  devices_[i], ", expected ", recorder->device(), ", whose work a cuda::Graph records");
  }
  std::vector<Ready> ready;
  ready.reserve(params_.size());
  for (std::size_t i = 0; i < params_.size(); ++i) {
    const Tensor& param = params_[i];
    const Tensor& gradient = gradients[i];
    if (!gradient.defined()) continue;
    // A gradient in a parameter's own storage could overlap what is being written. A parameter with gaps (a slice, a
    // transpose) is rare: it pays for a copy there and back. One in channels-last order is stepped on as it lies.
    const MemoryFormat format = param.suggest_memory_format();
    const Tensor apart = gradient.storage() == param.storage() ? raw::clone(gradient) : gradient;
    ready.push_back({i, raw::contiguous(param, format), raw::contiguous(apart, format)});
  }
  if (ready.empty()) return;
  if (recorder) {
    record(*recorder, ready);
  } else {
    mark_changed(ready);      // first: a failure may come half-way
    const NoGrad unrecorded;  // a user's own update is of Tensor operations
    update(ready);
    for (const Ready& one : ready) count_step(one.index);
  }
  for (const Ready& one : ready) {
    if (!one.param.is_same(params_[one.index])) raw::copy_(params_[one.index], one.param);
  }
}

void Optimizer::record(tendril::detail::Recorder& recorder, std::vector<Ready> ready) {
  mark_changed(ready);
  const auto kept = std::make_shared<const std::vector<Ready>>(std::move(ready));
  std::vector<const void*> places;
  for (const Ready& one : *kept) places.push_back(params_[one.index].raw_data());
  recorder.renew([this, kept, places = std::move(places)](bool replaying) {
    for (std::size_t i = 0; replaying && i < kept->size(); ++i) {
      const Ready& one = (*kept)[i];
      check_gradient(one.index, one.grad);
      TENDRIL_CHECK(params_[one.index].raw_data() == places[i], name_, "::step: parameter ", one.index,
                    " has other memory than when a cuda::Graph recorded the step (record it again)");
    }
    const NoGrad unrecorded;
    update(*kept);
  });
  // Of its own: whether the kernels were those that were recorded is known when all of them have been seen.
  recorder.renew([this, kept](bool replaying) {
    if (!replaying) return;
    mark_changed(*kept);
    for (const Ready& one : *kept) count_step(one.index);
  });
}

void Optimizer::mark_changed(std::span<const Ready> ready) const {
  for (const Ready& one : ready) params_[one.index].storage()->bump_version();
}

double Optimizer::initial_lr(std::size_t group) const {
  const double now = lr(group);  // checks the group
  return group < initial_lrs_.size() && initial_lrs_[group] ? *initial_lrs_[group] : now;
}

void Optimizer::set_initial_lr(std::size_t group, double rate) {
  TENDRIL_CHECK_AS(IndexError, group < num_groups_, name_, "::set_initial_lr: group ", group, " of ", num_groups_);
  detail::check_not_negative(name_, "initial_lr", rate);
  initial_lrs_.resize(num_groups_);
  initial_lrs_[group] = rate;
}

void Optimizer::zero_grad() {
  for (Tensor& param : params_) param.zero_grad();
}

void* Optimizer::state_data(Tensor& state, std::size_t index) const {
  const Tensor& param = params_[index];
  const MemoryFormat format = param.suggest_memory_format();
  const bool is_ready = state.defined() && state.is_contiguous(format);
  TENDRIL_CHECK(is_ready || !tendril::detail::recorder(), name_, "::step: parameter ", index,
                " has not all the state yet that these options need, expected one step with them before a cuda::Graph "
                "records the next");
  if (!state.defined()) {
    const Tensor zeros = raw::empty_in_format_of(param, state_dtype(index));
    raw::fill_(zeros, 0);
    state = zeros;
  } else if (!is_ready) {  // the module was put in another format meanwhile
    state = raw::contiguous(state, format);
  }
  return state.raw_data();
}

float* Optimizer::master_data(std::size_t index) {
  Tensor& master = masters_[index];
  if (!has_master_weights(group_of(index))) {
    master = Tensor();
    return nullptr;
  }
  const bool is_new = !master.defined();
  void* const data = state_data(master, index);
  if (is_new) raw::copy_(master, params_[index]);
  return static_cast<float*>(data);
}

void Optimizer::renew_master(std::size_t index) {
  const Tensor& param = params_[index];
  if (state_dtype(index) == param.dtype() || !master_data(index)) return;
  const Tensor& master = masters_[index];
  const Tensor written = raw::compare(Compare::ne, raw::cast(master, param.dtype()), param);
  raw::copy_(master, raw::where(written, raw::cast(param, master.dtype()), master));
}

const Tensor& Optimizer::master_weight(const Tensor& param) const { return masters_[index_of(param, "master_weight")]; }

void Optimizer::add_master(StateDict& dict, std::size_t index) const {
  if (masters_[index].defined()) dict.insert(master_name(index), masters_[index]);
}

Tensor Optimizer::read_master(StateReader& reader, std::size_t index) const {
  const DType dtype = state_dtype(index);
  if (dtype == dtypes_[index] || !reader.has(master_name(index))) return Tensor();
  const Tensor* const found = reader.tensor(master_name(index), params_[index].sizes(), dtype);
  return found ? *found : Tensor();
}

Tensor Optimizer::members_of(std::size_t group) const {
  std::vector<int64_t> members;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i] == group) members.push_back(static_cast<int64_t>(i));
  }
  return raw::from_data(members, {static_cast<int64_t>(members.size())});
}

void Optimizer::check_members(StateReader& reader, std::size_t group) const {
  const std::string entry = group_name(group) + ".params";
  const Tensor expected = members_of(group);
  const Tensor* const found = reader.tensor(entry, expected.sizes(), kInt64);
  if (!found) return;
  const std::vector<int64_t> got = found->to_vector<int64_t>(), own = expected.to_vector<int64_t>();
  const auto differ = std::ranges::mismatch(got, own);
  if (differ.in1 == got.end()) return;
  reader.refuse(entry, "got parameter " + std::to_string(*differ.in1) + ", expected " + std::to_string(*differ.in2));
}

Tensor Optimizer::copy_beside(const Tensor& state, std::size_t index) const {
  if (!state.defined()) return state;
  const Tensor& param = params_[index];
  Tensor copy = raw::empty_in_format_of(param, state_dtype(index));
  raw::copy_(copy, state);
  return copy;
}

}  // namespace tendril::optim
