#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tendril/nn/detail/births.h"
#include "tendril/nn/hooks.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

namespace detail {
class MemberList;
}

/// Base of everything with parameters. Layers are plain members, and one line below them registers them:
///
///     struct Policy : nn::Module {
///       nn::Linear affine1{4, 128};
///       nn::Dropout dropout{0.6};
///       nn::Linear affine2{128, 2};
///       TENDRIL_MEMBERS(affine1, dropout, affine2)
///
///       Tensor forward(const Tensor& x) const { return affine2(dropout(affine1(x)).relu()).softmax(-1); }
///     };
///
/// Buffers, members of members, and names other than the members' own are registered in the constructor:
/// `register_buffer("mean", mean)`, `register_module("fc", head.fc)`.
///
/// `forward` is not virtual: a module takes and returns what it likes. `operator()` of a layer is `call(*this, x)`
/// (nn/hooks.h): forward, between the hooks if there are any.
///
/// Ownership: a module refers to its registered members by address, so a registered tensor or module must live as long
/// as it does (members do), and a module can be neither copied nor moved (but see Movable, which layers are). Build it
/// where it stays: as a member, with `emplace`, by `std::make_shared`, or from a function that returns a prvalue.
/// Assigning another tensor to a registered member (`decoder.weight = encoder.weight`) is seen by the module, and ties
/// are listed once; whoever assigns sees to it that the tensor is a leaf that requires a gradient.
///
/// A forgotten registration is an Error as soon as the module is used: when its parameters are listed, when it is
/// trained, moved or registered in its turn. What counts are the modules that a constructor makes before the last
/// registration in that constructor; one that is not to be trained along (a frozen teacher) is named by `leave_out`,
/// and so is one that only happens to be made there (a static one, at its first use). What is made later goes
/// unnoticed: a member that a constructor makes after its last registration, or that a derived class adds while it
/// registers nothing. A module that registers nothing at all has no parameters, which an optimizer refuses.
///
/// Thread-safety: const members, and `forward` of a module whose training flag nobody changes meanwhile, may run on
/// several threads at a time (a layer that says otherwise is the exception). Everything else (registration, `train`,
/// `to`, `zero_grad`, an optimizer's step) needs the caller's own ordering.
class Module {
 public:
  using NamedTensors = std::vector<std::pair<std::string, Tensor>>;   ///< by their paths, "layer1.0.weight"
  using NamedModules = std::vector<std::pair<std::string, Module*>>;  ///< likewise; not owned

  Module() : birth_(detail::born(*this)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() { detail::belongs_elsewhere(birth_); }

  // ---- what it holds: its own tensors first, then its children's, each in the order of registration; a tensor or
  //      module reachable by two names is listed once, under the first. Names are joined with dots ("affine1.weight").
  /// What is trained, in the order of registration; with `recurse` of submodules too.
  std::vector<Tensor> parameters(bool recurse = true) const;
  /// The same with names, "fc.weight".
  NamedTensors named_parameters(bool recurse = true) const;
  /// What is saved but not trained.
  std::vector<Tensor> buffers(bool recurse = true) const;
  /// The same with names.
  NamedTensors named_buffers(bool recurse = true) const;
  /// The submodules registered here, not theirs.
  std::vector<Module*> children() const;
  /// The same with names.
  NamedModules named_children() const;
  std::vector<Module*> modules();  ///< this one and all below it
  NamedModules named_modules();    ///< this one's name is ""
  int64_t num_parameters() const;  ///< elements, trainable or not
  /// Calls `f` with each module below it, then with this one: PyTorch's order.
  Module& apply(const std::function<void(Module&)>& f);

  // ---- what can be done to it and all below it
  Module& train(bool mode = true);  ///< dropout drops, batch normalisation uses the batch's statistics
  Module& eval() { return train(false); }
  /// As train() and eval() left it.
  bool is_training() const noexcept { return training_; }
  void zero_grad();  ///< drops the gradients
  /// Of all parameters: whether they are trained.
  Module& requires_grad_(bool value = true);
  /// Moves parameters, their gradients and buffers to a device; casts the floating ones among them (statistics, see
  /// register_statistic, to float32 instead of a half type). They stay the same objects, so ties hold; but an optimizer
  /// refuses to step on parameters that were moved or cast after it was built, and tensor hooks on them are dropped.
  /// Throws DTypeError unless `dtype` is floating, and Error for a device that is not there or has not enough memory:
  /// all copies are made before the first is taken, so that nothing has changed then.
  Module& to(Device device);
  Module& to(DType dtype);
  Module& to(Device device, DType dtype);
  /// Puts parameters of four dimensions, their gradients and buffers in that order (tensor/memory_format.h): what
  /// `model.to(MemoryFormat::channels_last)` is for. Convolutions whose weight lies channels-last give such results,
  /// and the layers for images behind them keep to it; values and shapes are the same, and so are files and state
  /// dicts. Otherwise as the others, but that an optimizer goes on.
  Module& to(MemoryFormat format);

  // ---- hooks (nn/hooks.h): called in the order of registration where the module is called, `layer(x)` or
  // `call(module, x)`, until the handle is told to remove() them; not where `forward` is. They go along where the
  // module is moved to. In backward the module must still be there. Throw Error for an empty one. Registering and
  // removing needs the caller's own ordering with calls.
  /// Called before forward (nn/hooks.h).
  autograd::HookHandle register_forward_pre_hook(ForwardPreHook hook);
  /// Called after forward (nn/hooks.h).
  autograd::HookHandle register_forward_hook(ForwardHook hook);
  /// When the gradients of all inputs that require one are known; of a module none of whose inputs does: when those of
  /// its outputs are. Each call of the module is seen by itself.
  autograd::HookHandle register_full_backward_hook(FullBackwardHook hook);

  // ---- saving and loading (docs/files.md)
  /// Parameters and buffers under PyTorch's names, each module's own parameters before its buffers before its children.
  /// What is reachable by two names is there twice. The tensors share the module's elements and have no history: what a
  /// later step changes is seen through them, unless the dict is cloned.
  StateDict state_dict() const;
  /// Copies the dict's elements into parameters and buffers, converted to their dtype and device; the tensors stay the
  /// same objects, so ties, optimizers and views hold. Throws Error that lists all entries that are missing, unexpected
  /// (both only if `strict`), of another shape, or floating for an integer buffer; nothing has changed then. Gradients
  /// stay. A backward through a graph from before throws.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

  // ---- printing, as PyTorch does
  /// As PyTorch prints a module: its name, options and children, one a line.
  std::string to_string() const;
  virtual std::string name() const;                      ///< the class's name without its namespace
  virtual std::string extra_repr() const { return ""; }  ///< what stands between the brackets

 protected:
  /// From where to where an object lies, all of it.
  struct Extent {
    const void* begin;  ///< the address of its first byte
    std::size_t bytes;  ///< its size
  };
  /// Takes the registrations of `from`, of which those within its object are now as far from this. Throws Error unless
  /// `from` is of type `type`, or if its constructor forgot a member.
  Module(Module&& from, const std::type_info& type, Extent object);

  // Names are not empty, hold no dot, and are used once in a module for parameters, buffers and children together;
  // otherwise these throw Error. Nobody gives `where`: it is the caller.

  /// `parameter` is a leaf of floating dtype; it is made to require a gradient.
  void register_parameter(std::string name, Tensor& parameter,
                          std::source_location where = std::source_location::current());
  /// State that is not trained, such as running statistics.
  void register_buffer(std::string name, Tensor& buffer, std::source_location where = std::source_location::current());
  /// A buffer that accumulates from step to step (a running average), and would stand still in a half type: `to` of one
  /// casts it to float32.
  void register_statistic(std::string name, Tensor& buffer,
                          std::source_location where = std::source_location::current());
  /// The same child may have two names (it is listed once); a module may not be below itself.
  void register_module(std::string name, Module& child, std::source_location where = std::source_location::current());
  /// For a member that is deliberately not registered: it is neither listed nor trained.
  void leave_out(Module& member) { detail::belongs_elsewhere(member.birth_); }

 private:
  friend struct detail::HooksOf;
  friend class detail::MemberList;
  template <class T>
  using Members = std::vector<std::pair<std::string, T*>>;

  void registered_in(const std::source_location& where);
  void check_members() const;
  void check_new_name(const char* op, const std::string& member) const;
  template <class Self, class Visit>
  static void visit(Self& self, const Visit& visit_module);  ///< visit_module(path, module), each module once
  NamedTensors collect(Members<Tensor> Module::*members, bool recurse) const;
  void add_state(StateDict& dict, const std::string& path) const;
  void print(std::string& out, int indent) const;
  void convert(std::optional<Device> device, std::optional<DType> dtype,
               std::optional<MemoryFormat> format = std::nullopt);

  Members<Tensor> parameters_;
  Members<Tensor> buffers_;
  Members<Tensor> statistics_;  ///< those of the buffers that accumulate
  Members<Module> children_;
  std::shared_ptr<detail::ModuleHooks> hooks_;  ///< null for most
  bool training_ = true;
  const detail::Birth birth_;
  uint64_t last_member_ = 0;  ///< birth of the last module that was made before a registration in the constructor
  mutable std::atomic<uint64_t> checked_ = 0;  ///< the `last_member_` up to which all are known to be registered
};

/// A module that can be moved: what its class registered lies within the object, or where a move leaves it (elements of
/// a std::vector or std::unique_ptr that is a member). `Sequential(Linear(2, 3), ReLU())` and a std::vector<Linear>
/// need that. Derive from Movable<Derived> in place of Module, and let the move constructor be the compiler's.
///
/// A module that another has registered must stay where it is: that one would look for it where it was. A class that
/// derives from a movable one and registers more must not be moved: that is an Error.
template <class Derived, class Base = Module>
class Movable : public Base {
 protected:
  using Base::Base;
  Movable() = default;
  Movable(Movable&& from)  // NOLINT(performance-noexcept-move-constructor): it refuses what may not be moved
      : Base(std::move(from), typeid(Derived), {static_cast<const Derived*>(&from), sizeof(Derived)}) {}
  ~Movable() override = default;
};

/// As to_string.
std::ostream& operator<<(std::ostream& out, const Module& module);

namespace detail {

/// Registers members under their names when it is constructed: see TENDRIL_MEMBERS.
class MemberList {
 public:
  /// `names` is a list such as "affine1, affine2". Throws Error if a name is not an identifier.
  template <class... Members>
  MemberList(Module& module, const char* names, Members&... members) {
    (add(module, next_name(names), members), ...);
    module.last_member_ = latest_birth();
  }

 private:
  static void add(Module& module, std::string name, Tensor& parameter) {
    module.register_parameter(std::move(name), parameter);
  }
  static void add(Module& module, std::string name, Module& child) { module.register_module(std::move(name), child); }
  static std::string next_name(const char*& names);  ///< advances `names` past it
};

}  // namespace detail

}  // namespace tendril::nn

TENDRIL_API_END

/// Registers members of an nn::Module under their own names, without an underscore at the end: tensors as parameters,
/// modules as submodules. It is placed in the class below the members that it names, and registers them before a
/// constructor's body runs. A module member that it leaves out is an Error as soon as the module is used, like every
/// forgotten registration.
#define TENDRIL_MEMBERS(...) \
  [[no_unique_address]] ::tendril::nn::detail::MemberList tendril_members_{*this, #__VA_ARGS__, __VA_ARGS__};
