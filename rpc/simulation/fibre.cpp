#include "tendril/rpc/simulation/fibre.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace tendril::rpc::detail {

namespace context = boost::context;
using tendril::detail::SwitchedVariable;

namespace {

/// The exceptions that a thread is handling: __cxa_eh_globals of the Itanium C++ ABI, 2.2.2. Each fibre needs its own,
/// because it may wait in a catch clause.
struct Handling {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};
const auto handling_switched = tendril::detail::of_each_thread(
    []() -> auto& { return *reinterpret_cast<Handling*>(abi::__cxa_get_globals()); }, [] { return Handling(); });

/// The stack allocator of one boost::context::fiber. It can allocate only the given stack.
struct GivenStack {
  FibreStacks* stacks;
  context::stack_context stack;
  context::stack_context allocate() const noexcept { return stack; }
  void deallocate(const context::stack_context&) const { stacks->give_back(stack); }
};

void* new_stack(std::size_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* const bottom = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (bottom == MAP_FAILED) throw std::system_error(errno, std::system_category(), "rpc::simulate: a fibre's stack");
  if (::mprotect(bottom, 4096, PROT_NONE) != 0) {
    const int error = errno;
    ::munmap(bottom, bytes);
    throw std::system_error(error, std::system_category(), "rpc::simulate: a fibre's guard page");
  }
  return bottom;
}

/// The space that a saved variable takes. Each is aligned, so that LeakSanitizer finds its pointers.
std::size_t space(const SwitchedVariable& variable) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  return (variable.size() + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void SwitchedValues::load() {
  const bool is_new = bytes_.empty();
  std::size_t at = 0;
  for (auto* variable = SwitchedVariable::first(); variable != nullptr; variable = variable->next()) {
    if (variable->of() != of_) continue;
    if (is_new) {
      variable->construct(variable->address());
    } else {
      std::memcpy(variable->address(), bytes_.data() + at, variable->size());
    }
    at += space(*variable);
  }
  bytes_.resize(at);
}

void SwitchedValues::save() {
  std::size_t at = 0;
  for (auto* variable = SwitchedVariable::first(); variable != nullptr; variable = variable->next()) {
    if (variable->of() != of_) continue;
    if (bytes_.size() < at + space(*variable)) bytes_.resize(at + space(*variable));
    std::memcpy(bytes_.data() + at, variable->address(), variable->size());
    at += space(*variable);
  }
}

void SwitchedValues::destroy() {
  for (auto* variable = SwitchedVariable::first(); variable != nullptr; variable = variable->next())
    if (variable->of() == of_) variable->destroy(variable->address());
  bytes_.clear();
}

FibreStacks::~FibreStacks() {
  for (void* bottom : free_) ::munmap(bottom, kBytes);
}

context::stack_context FibreStacks::take() {
  void* bottom = nullptr;
  if (free_.empty()) {
    bottom = new_stack(kBytes);
  } else {
    bottom = free_.back();
    free_.pop_back();
  }
  context::stack_context stack;
  stack.size = kBytes;
  stack.sp = static_cast<char*>(bottom) + kBytes;
  return stack;
}

void FibreStacks::give_back(const context::stack_context& stack) {
  free_.push_back(static_cast<char*>(stack.sp) - stack.size);
}

/// Notifies AddressSanitizer of every stack switch.
struct Fibre::Switch {
#if defined(__SANITIZE_ADDRESS__)
  void* saved = nullptr;
  void leave(const void* bottom, std::size_t bytes, bool for_good = false) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &saved, bottom, bytes);
  }
  void arrived(const void** bottom, std::size_t* bytes) const { __sanitizer_finish_switch_fiber(saved, bottom, bytes); }
#else
  void leave(const void*, std::size_t, bool = false) {}
  void arrived(const void**, std::size_t*) const {}
#endif
};

Fibre::Fibre(FibreStacks& stacks, SimulatedWorker& of, uint64_t its_number, std::string its_name,
             std::function<void()> body)
    : worker(of), number(its_number), name(std::move(its_name)), body_(std::move(body)) {
  const context::stack_context stack = stacks.take();
  stack_bytes_ = stack.size;
  stack_bottom_ = static_cast<char*>(stack.sp) - stack.size;
  self_ = context::fiber(std::allocator_arg, GivenStack{&stacks, stack}, [this](context::fiber&& caller) {
    caller_ = std::move(caller);
    Switch{}.arrived(&caller_bottom_, &caller_bytes_);
    run();
    ended_ = true;
    Switch{}.leave(caller_bottom_, caller_bytes_, true);
    return std::move(caller_);
  });
}

void Fibre::abandon(std::unique_ptr<Fibre> fibre) {
  static auto& abandoned = *new std::vector<std::unique_ptr<Fibre>>;
#if defined(__SANITIZE_ADDRESS__)
  __lsan_register_root_region(fibre->stack_bottom_, fibre->stack_bytes_);
#endif
  abandoned.push_back(std::move(fibre));
}

void Fibre::run() { std::exchange(body_, nullptr)(); }

void Fibre::resume() {
  Switch here;
  here.leave(stack_bottom_, stack_bytes_);
  self_ = std::move(self_).resume();
  here.arrived(nullptr, nullptr);
}

void Fibre::pause() {
  Switch here;
  here.leave(caller_bottom_, caller_bytes_);
  caller_ = std::move(caller_).resume();
  here.arrived(&caller_bottom_, &caller_bytes_);
}

}  // namespace tendril::rpc::detail
