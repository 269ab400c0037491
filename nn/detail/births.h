#pragma once

#include <cstdint>
#include <string_view>
#include <thread>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::nn {

class Module;

/// When modules were made, to find members that their module did not register: what a thread makes between the start of
/// a module's constructor and a registration in that constructor is part of that module.
namespace detail {

struct Birth {
  uint64_t number = 0;  ///< counts the modules of the process, from 1
  std::thread::id thread;
};

// Safe to use from several threads at a time.

Birth born(Module& module);                  ///< now, on this thread
uint64_t latest_birth();                     ///< the number that was given out last
void belongs_elsewhere(const Birth& birth);  ///< the module was registered, or is gone: it is not looked for
/// A module that was made by `birth`'s thread, after it and not after `last`, and was not registered; null if none.
Module* forgotten_since(const Birth& birth, uint64_t last);

/// Whether a std::source_location's function_name is that of a constructor: "Net::Net(int)", or "{anonymous}::B<T>::B()
/// [with T = int]". False where a compiler says less.
bool is_constructor(std::string_view function_name);

}  // namespace detail
}  // namespace tendril::nn

TENDRIL_API_END
