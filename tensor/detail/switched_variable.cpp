#include "tendril/tensor/detail/switched_variable.h"

#include <utility>

namespace tendril::detail {

namespace {
constinit const SwitchedVariable* made_last = nullptr;
}

const SwitchedVariable* SwitchedVariable::first() noexcept { return made_last; }

SwitchedVariable::SwitchedVariable(Of of, void* (*where)(), std::size_t bytes, void (*make)(void*),
                                   void (*end)(void*) noexcept) noexcept
    : of_(of), address_(where), size_(bytes), construct_(make), destroy_(end), next_(std::exchange(made_last, this)) {}

}  // namespace tendril::detail
