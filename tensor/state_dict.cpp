#include "tendril/tensor/state_dict.h"

#include <cmath>
#include <sstream>

#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const auto& [name, tensor] : entries) insert(name, tensor);
}

void StateDict::insert(std::string name, Tensor tensor) {
  TENDRIL_CHECK(!name.empty(), "StateDict::insert: name: got an empty one");
  TENDRIL_CHECK(tensor.defined(), "StateDict::insert: '", name, "' is an undefined tensor");
  const bool is_new = index_.emplace(name, entries_.size()).second;
  TENDRIL_CHECK(is_new, "StateDict::insert: '", name, "' is there already, expected a new name");
  entries_.emplace_back(std::move(name), std::move(tensor));
}

void StateDict::insert_number(std::string name, Scalar value) {
  insert(std::move(name), raw::scalar(value, value.category()));
}

void StateDict::insert(const std::string& name, const StateDict& entries) {
  for (const auto& [member, tensor] : entries) insert(name + "." + member, tensor);
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* const found = find(name);
  TENDRIL_CHECK(found, "StateDict::at: there is no '", name, "' among ", size(), " entries");
  return *found;
}

StateDict StateDict::section(std::string_view name) const {
  const std::string prefix = std::string(name) + ".";
  StateDict part;
  for (const auto& [member, tensor] : entries_) {
    if (member.starts_with(prefix) && member.size() > prefix.size()) part.insert(member.substr(prefix.size()), tensor);
  }
  return part;
}

StateDict StateDict::clone() const {
  StateDict copies;
  for (const auto& [name, tensor] : entries_) copies.insert(name, raw::clone(tensor));
  return copies;
}

// ---- reading one

const Tensor* StateReader::take(const std::string& name) {
  const Tensor* const found = dict_.find(name);
  if (found) {
    asked_.insert(found);
  } else {
    missing_.push_back(name);
  }
  return found;
}

bool StateReader::has(const std::string& name) {
  const Tensor* const found = dict_.find(name);
  if (found) asked_.insert(found);
  return found != nullptr;
}

const Tensor* StateReader::tensor(const std::string& name, const Dims& sizes, DType dtype) {
  const Tensor* const found = take(name);
  if (!found) return nullptr;
  std::ostringstream problem;
  if (!(found->sizes() == sizes)) {
    problem << "got shape " << found->sizes() << ", expected " << sizes;
  } else if ((is_floating(found->dtype()) && !is_floating(dtype)) || (found->dtype() != kBool && dtype == kBool)) {
    problem << "got dtype " << found->dtype() << ", expected " << dtype;
  } else {
    return found;
  }
  refuse(name, problem.str());
  return nullptr;
}

bool StateReader::one_number(const std::string& name, Scalar& value) {
  const Tensor* const found = take(name);
  if (!found) return false;
  if (found->numel() != 1) {
    std::ostringstream problem;
    problem << "got shape " << found->sizes() << ", expected one number";
    refuse(name, problem.str());
    return false;
  }
  value = found->item_scalar();
  return true;
}

void StateReader::read_bool(const std::string& name, bool& value) {
  Scalar got = 0;
  if (!one_number(name, got)) return;
  if (got.category() == kBool) {
    value = got.to<bool>();
  } else {
    refuse(name, "got a number, expected true or false");
  }
}

bool StateReader::read_integer(const std::string& name, int64_t& value) {
  Scalar got = 0;
  if (!one_number(name, got)) return false;
  const double floating = got.to<double>();
  // PyTorch counts Adam's steps in float32.
  if (got.category() == kBool ||
      (got.is_floating() && !(std::trunc(floating) == floating && std::abs(floating) < 0x1p53))) {
    std::ostringstream problem;
    problem << "got " << got << ", expected an integer";
    refuse(name, problem.str());
    return false;
  }
  value = got.to<int64_t>();
  return true;
}

bool StateReader::read_floating(const std::string& name, double& value) {
  Scalar got = 0;
  if (!one_number(name, got)) return false;
  if (got.category() == kBool) {
    refuse(name, "got true or false, expected a number");
    return false;
  }
  value = got.to<double>();
  return true;
}

void StateReader::count(const std::string& name, int64_t& value) {
  if (read_integer(name, value) && (value < 0 || value >= int64_t{1} << 53)) {  // above it the next would leave int64
    refuse(name, "got " + std::to_string(value) + ", expected a number from 0 to 2^53");
  }
}

LoadReport StateReader::finish(const LoadOptions& options) {
  LoadReport report{missing_, {}};
  for (const auto& [name, tensor] : dict_) {
    if (!asked_.contains(&tensor)) report.unexpected.push_back(name);
  }
  const bool all_there = report.missing.empty() && report.unexpected.empty();
  if (problems_.empty() && (all_there || !options.strict)) return report;
  std::string text = op_ + ": the state_dict does not fit, nothing was loaded";
  if (options.strict && !report.missing.empty()) text += "\n  missing: " + listed(report.missing);
  if (options.strict && !report.unexpected.empty()) text += "\n  unexpected: " + listed(report.unexpected);
  for (const std::string& problem : problems_) text += "\n  " + problem;
  throw Error(text);
}

}  // namespace tendril
