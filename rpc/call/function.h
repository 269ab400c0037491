#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <typeinfo>

#include "tendril/rpc/call/served_function.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A remote function's identity on the wire: a 64-bit hash of its mangled name, its receiver's type and the types that
/// are sent. The same in every program in which those are the same.
using FunctionId = uint64_t;

/// The functions that this process serves: all that its program calls, and those it names with `rpc::serve`. One table
/// a process, filled before main.
FunctionTable& served_functions();

/// For errors: that a worker does not serve the function, and what its program has to say.
std::string describe_unserved(const ServedFunction& function);
/// ... where only the caller's program knows the function.
std::string describe_unserved(FunctionId id);
/// "train" or, if this program neither calls nor serves it, "function 0x1f...".
std::string name_of_function(FunctionId id);

namespace detail {

/// What is known of a function that is called or served: made once for each, lives for ever.
struct FunctionEntry {
  /// `callable` is the type that stands for the function (call_target.h), `wire` the types that are sent.
  FunctionEntry(const std::type_info& callable, const std::type_info& wire, void (*invoke)(InboundCall&),
                bool may_park = false);

  std::string signature;  ///< tells a collision of ids from a function that is registered twice
  FunctionId id;
  bool internal;  ///< internal linkage: it cannot be called
  ServedFunction served;
};

/// Adds an entry. Twice the same is fine; another function of the same id ends the program with a
/// message: two programs could not agree on what is meant. Entries of internal linkage are left out. Returns true.
bool register_function(const FunctionEntry& entry);

/// Throws UsageError if the function has internal linkage.
void check_callable(const FunctionEntry& entry);

/// The entry of a callable. Whoever mentions `registered` has it registered before main.
template <class Callable>
struct Registration {
  static const FunctionEntry& entry() {
    static const FunctionEntry instance(
        typeid(Callable), typeid(typename Callable::WireSignature), &Callable::invoke,
        requires { typename Callable::Receiver; });
    return instance;
  }
  static inline const bool registered = register_function(entry());
};

/// The entry to call through.
template <class Callable>
const FunctionEntry& entry_of() {
  (void)&Registration<Callable>::registered;
  const FunctionEntry& entry = Registration<Callable>::entry();
  if (entry.internal) check_callable(entry);
  return entry;
}

}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
