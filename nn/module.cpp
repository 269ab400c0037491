#include "tendril/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ostream>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "tendril/autograd/history.h"
#include "tendril/autograd/hooks.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {
namespace {

std::vector<Tensor> values_of(Module::NamedTensors named) {
  std::vector<Tensor> values;
  values.reserve(named.size());
  for (auto& [name, tensor] : named) values.push_back(std::move(tensor));
  return values;
}

std::string joined(const std::string& path, const std::string& member) {
  return path.empty() ? member : path + "." + member;
}

/// A parameter or buffer and what takes the place of its elements; undefined where they stay.
struct Conversion {
  Tensor tensor, elements, grad;
};

/// Gives a tensor other elements under the same identity.
void replace_elements(Tensor& tensor, const Tensor& elements) {
  const TensorImpl& from = *elements.impl();
  TensorImpl& impl = *tensor.impl();
  impl.storage = from.storage;
  impl.offset = from.offset;
  impl.strides = from.strides;
  impl.dtype = from.dtype;
  impl.contiguous = from.contiguous;
  impl.view_base.reset();
}

}  // namespace

Module::Module(Module&& from, const std::type_info& type, Extent object)
    : hooks_(from.hooks_), training_(from.training_), birth_(detail::born(*this)) {
  TENDRIL_CHECK(typeid(from) == type, from.name(),
                ": it was moved, but only its base class is made for that; expected a class that is a Movable itself");
  from.check_members();
  const auto begin = reinterpret_cast<std::uintptr_t>(object.begin);
  const auto shift = reinterpret_cast<std::uintptr_t>(this) - reinterpret_cast<std::uintptr_t>(&from);
  const auto take = [&](auto& mine, auto& theirs) {
    mine = std::move(theirs);
    theirs.clear();
    for (auto& [member, address] : mine) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      if (at - begin < object.bytes) address = reinterpret_cast<decltype(+address)>(at + shift);
    }
  };
  take(parameters_, from.parameters_);
  take(buffers_, from.buffers_);
  take(statistics_, from.statistics_);
  take(children_, from.children_);
}

// ---- registration

void Module::check_new_name(const char* op, const std::string& member) const {
  TENDRIL_CHECK(!member.empty() && member.find('.') == std::string::npos, op, ": name '", member, "' in ", name(),
                " must not be empty or hold a dot");
  auto has_name = [&](const auto& entry) { return entry.first == member; };
  const char* taken = std::ranges::any_of(parameters_, has_name) ? "parameter"
                      : std::ranges::any_of(buffers_, has_name)  ? "buffer"
                      : std::ranges::any_of(children_, has_name) ? "module"
                                                                 : nullptr;
  TENDRIL_CHECK(taken == nullptr, op, ": name '", member, "' in ", name(), " is taken by a ", taken,
                ", expected a new one");
}

void Module::registered_in(const std::source_location& where) {
  if (detail::is_constructor(where.function_name())) last_member_ = detail::latest_birth();
}

void Module::check_members() const {
  if (checked_.load(std::memory_order_relaxed) == last_member_) return;
  const Module* forgotten = detail::forgotten_since(birth_, last_member_);
  TENDRIL_CHECK(forgotten == nullptr, name(), ": its constructor made a module ", forgotten->name(),
                " that was not registered, so that train(), to() and optimizers would not reach it; expected "
                "register_module(\"...\", it), or "
                "leave_out(it)");
  checked_.store(last_member_, std::memory_order_relaxed);
}

std::string detail::MemberList::next_name(const char*& names) {
  const auto is_of_name = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  while (*names == ' ' || *names == ',') ++names;
  const char* const first = names;
  while (is_of_name(*names)) ++names;
  TENDRIL_CHECK(names != first && (*names == ',' || *names == '\0'), "TENDRIL_MEMBERS: got '", first,
                "', expected names of members");
  return {first, names - (names - first > 1 && names[-1] == '_' ? 1 : 0)};
}

void Module::register_parameter(std::string member, Tensor& parameter, std::source_location where) {
  check_new_name("register_parameter", member);
  TENDRIL_CHECK(parameter.defined(), "register_parameter: '", member, "' in ", name(), " is an undefined tensor");
  TENDRIL_CHECK_AS(DTypeError, is_floating(parameter.dtype()), "register_parameter: '", member, "' in ", name(),
                   " has dtype ", parameter.dtype(), ", expected a floating one (integers belong into a buffer)");
  TENDRIL_CHECK(parameter.is_leaf(), "register_parameter: '", member, "' in ", name(),
                " is the result of a recorded operation, expected a leaf (detach it first)");
  parameter.requires_grad_();
  parameters_.emplace_back(std::move(member), &parameter);
  registered_in(where);
}

void Module::register_buffer(std::string member, Tensor& buffer, std::source_location where) {
  check_new_name("register_buffer", member);
  TENDRIL_CHECK(buffer.defined(), "register_buffer: '", member, "' in ", name(), " is an undefined tensor");
  TENDRIL_CHECK(!buffer.requires_grad(), "register_buffer: '", member, "' in ", name(),
                " requires a gradient, expected a tensor that does not (or a parameter)");
  buffers_.emplace_back(std::move(member), &buffer);
  registered_in(where);
}

void Module::register_statistic(std::string member, Tensor& buffer, std::source_location where) {
  register_buffer(member, buffer, where);
  statistics_.emplace_back(std::move(member), &buffer);
}

void Module::register_module(std::string member, Module& child, std::source_location where) {
  check_new_name("register_module", member);
  const std::vector<Module*> below = child.modules();
  TENDRIL_CHECK(std::ranges::find(below, this) == below.end(), "register_module: '", member, "' in ", name(),
                " is the module itself or holds it, expected a module that does not");
  children_.emplace_back(std::move(member), &child);
  detail::belongs_elsewhere(child.birth_);
  registered_in(where);
}

// ---- listing

template <class Self, class Visit>
void Module::visit(Self& self, const Visit& visit_module) {
  std::unordered_set<const Module*> seen;
  auto descend = [&](auto& again, Self& module, const std::string& path) -> void {
    if (!seen.insert(&module).second) return;
    module.check_members();
    visit_module(path, module);
    for (const auto& [member, child] : module.children_) again(again, *child, joined(path, member));
  };
  descend(descend, self, "");
}

Module::NamedTensors Module::collect(Members<Tensor> Module::*members, bool recurse) const {
  NamedTensors found;
  std::unordered_set<const TensorImpl*> seen;
  auto add = [&](const std::string& path, const Module& module) {
    for (const auto& [member, tensor] : module.*members) {
      if (tensor->defined() && seen.insert(tensor->impl()).second) found.emplace_back(joined(path, member), *tensor);
    }
  };
  if (recurse) {
    visit(*this, add);
  } else {
    add("", *this);
  }
  return found;
}

Module::NamedTensors Module::named_parameters(bool recurse) const { return collect(&Module::parameters_, recurse); }
Module::NamedTensors Module::named_buffers(bool recurse) const { return collect(&Module::buffers_, recurse); }
std::vector<Tensor> Module::parameters(bool recurse) const { return values_of(named_parameters(recurse)); }
std::vector<Tensor> Module::buffers(bool recurse) const { return values_of(named_buffers(recurse)); }

Module::NamedModules Module::named_children() const {
  NamedModules found;
  std::unordered_set<const Module*> seen;
  for (const auto& [member, child] : children_) {
    if (seen.insert(child).second) found.emplace_back(member, child);
  }
  return found;
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> found;
  for (auto& [member, child] : named_children()) found.push_back(child);
  return found;
}

Module::NamedModules Module::named_modules() {
  NamedModules found;
  visit(*this, [&](const std::string& path, Module& module) { found.emplace_back(path, &module); });
  return found;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> found;
  for (auto& [path, module] : named_modules()) found.push_back(module);
  return found;
}

Module& Module::apply(const std::function<void(Module&)>& f) {
  TENDRIL_CHECK(f, "Module::apply: an empty function");
  std::unordered_set<const Module*> seen;
  const auto ascend = [&](const auto& again, Module& module) -> void {
    if (const bool first = seen.insert(&module).second; !first) return;  // reachable by two names
    module.check_members();
    for (const auto& [member, child] : module.children_) again(again, *child);
    f(module);
  };
  ascend(ascend, *this);
  return *this;
}

int64_t Module::num_parameters() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

// ---- changing

Module& Module::train(bool mode) {
  for (Module* module : modules()) module->training_ = mode;
  return *this;
}

void Module::zero_grad() {
  for (Tensor& parameter : parameters()) parameter.zero_grad();
}

Module& Module::requires_grad_(bool value) {
  for (Tensor& parameter : parameters()) parameter.requires_grad_(value);
  return *this;
}

Module& Module::to(Device device) {
  convert(device, std::nullopt);
  return *this;
}
Module& Module::to(DType dtype) {
  convert(std::nullopt, dtype);
  return *this;
}
Module& Module::to(Device device, DType dtype) {
  convert(device, dtype);
  return *this;
}

Module& Module::to(MemoryFormat format) {
  convert(std::nullopt, std::nullopt, format);
  return *this;
}

void Module::convert(std::optional<Device> device, std::optional<DType> dtype, std::optional<MemoryFormat> format) {
  TENDRIL_CHECK_AS(DTypeError, !dtype || is_floating(*dtype), "Module::to: got ", *dtype,
                   ", expected a floating dtype");
  if (device) {
    const int count = device_count(device->type);
    TENDRIL_CHECK(device->index >= 0 && device->index < count, "Module::to: got ", *device, ", but this process has ",
                  count, device->is_cpu() ? " cpu" : " cuda", count == 1 ? " device" : " devices");
  }
  std::unordered_set<const TensorImpl*> statistics;
  for (const auto& [name, tensor] : collect(&Module::statistics_, true)) statistics.insert(tensor.impl());
  const auto converted = [&](const Tensor& x) {
    if (!x.defined()) return x;
    if (format) return x.dim() == 4 ? raw::contiguous(x, *format) : x;
    if (!dtype || !is_floating(x.dtype())) return raw::to(x, device.value_or(x.device()));
    const DType to = statistics.contains(x.impl()) ? computed_in(*dtype) : *dtype;
    return raw::to(raw::cast(x, to), device.value_or(x.device()));
  };
  std::vector<Conversion> conversions;
  for (const std::vector<Tensor>& members : {buffers(), parameters()}) {
    for (const Tensor& tensor : members) {
      const Tensor elements = converted(tensor);
      if (elements.is_same(tensor)) continue;
      TENDRIL_CHECK_AS(AutogradError, tensor.is_leaf(), "Module::to: a parameter or buffer of ", name(),
                       " is the result of a recorded operation, expected leaves (detach it first)");
      conversions.push_back({tensor, elements, converted(tensor.grad())});
    }
  }
  for (auto& [tensor, elements, grad] : conversions) {
    replace_elements(tensor, elements);
    autograd::detail::renew_leaf(tensor, grad);
  }
}

// ---- saving and loading

void Module::add_state(StateDict& dict, const std::string& path) const {
  check_members();
  for (const Members<Tensor>* members : {&parameters_, &buffers_}) {
    for (const auto& [member, tensor] : *members) {
      if (tensor->defined()) dict.insert(joined(path, member), tensor->detach());
    }
  }
  for (const auto& [member, child] : children_) child->add_state(dict, joined(path, member));
}

StateDict Module::state_dict() const {
  StateDict dict;
  add_state(dict, "");
  return dict;
}

namespace {

/// A parameter or buffer, and all names under which the module has it (tied weights have several).
struct Named {
  Tensor tensor;
  std::vector<std::string> names;
};

std::vector<Named> by_tensor(const StateDict& state) {
  std::vector<Named> all;
  std::unordered_multimap<const Storage*, std::size_t> found;  // places in `all`
  for (const auto& [name, tensor] : state) {
    const auto [begin, end] = found.equal_range(tensor.storage().get());
    const auto same = std::find_if(begin, end, [&, &tensor = tensor](const auto& entry) {
      const Tensor& other = all[entry.second].tensor;
      return other.storage_offset() == tensor.storage_offset() && other.sizes() == tensor.sizes() &&
             other.strides() == tensor.strides();
    });
    if (same != end) {
      all[same->second].names.push_back(name);
    } else {
      found.emplace(tensor.storage().get(), all.size());
      all.push_back({tensor, {name}});
    }
  }
  return all;
}

/// Whether loading either tensor into `own` has the same result.
bool load_equal(const Tensor& a, const Tensor& b, const Tensor& own) {
  const Tensor x = raw::contiguous(raw::cast(raw::to(a, kCPU), own.dtype()));
  const Tensor y = raw::contiguous(raw::cast(raw::to(b, kCPU), own.dtype()));
  return std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

}  // namespace

LoadReport Module::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "Module::load_state_dict: " + name());
  std::vector<std::pair<Tensor, Tensor>> copies;  // where to and what from
  for (const auto& [own, names] : by_tensor(state_dict())) {
    const bool any = std::ranges::any_of(names, [&](const std::string& name) { return dict.contains(name); });
    const Tensor* first = nullptr;
    std::string first_name;
    for (const std::string& name : names) {
      if (any && !dict.contains(name)) continue;  // another name has its values
      const Tensor* const given = reader.tensor(name, own.sizes(), own.dtype());
      if (!given) continue;
      if (!first) {
        first = given;
        first_name = name;
        copies.emplace_back(own, *given);
      } else if (!load_equal(*first, *given, own)) {
        reader.refuse(name, "differs from " + first_name + ", which is the same tensor in the module");
      }
    }
  }
  LoadReport report = reader.finish(options);
  if (options.check_only) return report;
  for (const auto& [own, given] : copies) {
    raw::copy_(own, given);
    own.storage()->bump_version();
  }
  return report;
}

// ---- printing

std::string Module::name() const {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status),
                                                   std::free);
  std::string full = status == 0 ? demangled.get() : typeid(*this).name();
  // Namespaces end at the last "::" that is outside template arguments.
  const std::size_t scope = full.rfind("::", full.find('<'));
  return scope == std::string::npos ? full : full.substr(scope + 2);
}

void Module::print(std::string& out, int indent) const {
  out += name() + "(" + extra_repr();
  if (!children_.empty()) {
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    out += "\n";
    for (const auto& [member, child] : children_) {
      out += margin + "  (" + member + "): ";
      child->print(out, indent + 2);
      out += "\n";
    }
    out += margin;
  }
  out += ")";
}

std::string Module::to_string() const {
  std::string out;
  print(out, 0);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.to_string(); }

}  // namespace tendril::nn
