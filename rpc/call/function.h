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
/// are sent. Programs in which these are equal compute the same ID.
using FunctionId = uint64_t;

/// Returns the functions that this process serves: all that its program calls, and those that it registers with
/// `rpc::serve`. Each process has one table, which is filled before main.
FunctionTable& served_functions();

/// Returns the error text for a function that a worker does not serve. It names the call that would register the
/// function.
std::string describe_unserved(const ServedFunction& function);
/// As above, if this program may not know the function.
std::string describe_unserved(FunctionId id);
/// Returns the function's name, such as "train", or "function 0x1f..." if this program neither calls nor serves it.
std::string name_of_function(FunctionId id);

namespace detail {

/// Describes a function that is called or served. There is one entry for each, which lives until the program exits.
struct FunctionEntry {
  /// `callable` is the type that represents the function (call_target.h), `wire` is the types that are sent.
  FunctionEntry(const std::type_info& callable, const std::type_info& wire, void (*invoke)(InboundCall&),
                bool may_park = false);

  std::string signature;  ///< distinguishes a collision of IDs from a function that is registered twice
  FunctionId id;
  bool internal;  ///< has internal linkage, so it cannot be called
  ServedFunction served;
};

/// Adds an entry. Adding the same function again has no effect. If another function has the same ID, prints a message
/// and aborts, because the ID would be ambiguous. Ignores entries with internal linkage. Returns true.
bool register_function(const FunctionEntry& entry);

/// Throws UsageError if the function has internal linkage.
void check_callable(const FunctionEntry& entry);

/// The entry of a callable. A program that refers to `registered` registers the callable before main.
template <class Callable>
struct Registration {
  static const FunctionEntry& entry() {
    // Never destroyed: calls and the registry refer to it until the process ends.
    static const FunctionEntry& instance = *new FunctionEntry(
        typeid(Callable), typeid(typename Callable::WireSignature), &Callable::invoke,
        requires { typename Callable::Receiver; });
    return instance;
  }
  static inline const bool registered = register_function(entry());
};

/// Registers the callable and returns its entry. Throws UsageError if the function has internal linkage.
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
