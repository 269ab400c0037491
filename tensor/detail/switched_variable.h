#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::detail {

/// Registers a variable that exists once per thread or once per process. A simulation runs all workers in one thread
/// of one process. When it switches to another worker or thread, it swaps the bytes of these variables, so that each
/// finds its own values at the same address. A variable that is never in use across a wait need not be registered.
///
/// Constructed before main, once per variable; all simulations of this process use the same list.
class SwitchedVariable {
 public:
  enum class Of { thread, process };

  /// The list of all registered variables: the next one, or null; and the first.
  const SwitchedVariable* next() const noexcept { return next_; }
  static const SwitchedVariable* first() noexcept;

  Of of() const noexcept { return of_; }
  void* address() const { return address_(); }  ///< in the calling thread
  std::size_t size() const noexcept { return size_; }
  void construct(void* at) const { construct_(at); }
  void destroy(void* at) const noexcept { destroy_(at); }

  SwitchedVariable(const SwitchedVariable&) = delete;
  SwitchedVariable& operator=(const SwitchedVariable&) = delete;

 protected:
  SwitchedVariable(Of of, void* (*where)(), std::size_t size, void (*make)(void*),
                   void (*end)(void*) noexcept) noexcept;

 private:
  const Of of_;
  void* (*const address_)();
  const std::size_t size_;
  void (*const construct_)(void*);
  void (*const destroy_)(void*) noexcept;
  const SwitchedVariable* const next_;
};

/// `where` returns a reference to the variable, `initial` its initial value. Neither may capture anything.
template <SwitchedVariable::Of kOf, class Where, class Initial>
class Switched final : public SwitchedVariable {
  using T = std::remove_reference_t<decltype(Where{}())>;

 public:
  Switched(Where, Initial) noexcept
      : SwitchedVariable(
            kOf, [] { return static_cast<void*>(std::addressof(Where{}())); },
            sizeof(T),  // NOLINT(bugprone-sizeof-expression): also of pointers
            [](void* at) { ::new (at) T(Initial{}()); }, [](void* at) noexcept { static_cast<T*>(at)->~T(); }) {}
};

template <class Where, class Initial>
auto of_each_thread(Where where, Initial initial) noexcept {
  return Switched<SwitchedVariable::Of::thread, Where, Initial>(where, initial);
}
template <class Where>
auto of_each_thread(Where where) noexcept {
  return of_each_thread(where, [] { return std::remove_reference_t<decltype(Where{}())>{}; });
}
template <class Where, class Initial>
auto of_each_process(Where where, Initial initial) noexcept {
  return Switched<SwitchedVariable::Of::process, Where, Initial>(where, initial);
}
template <class Where>
auto of_each_process(Where where) noexcept {
  return of_each_process(where, [] { return std::remove_reference_t<decltype(Where{}())>{}; });
}

}  // namespace tendril::detail

TENDRIL_API_END
