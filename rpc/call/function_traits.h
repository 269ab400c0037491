#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "tendril/rpc/task.h"
#include "tendril/tensor/export.h"

namespace tendril::rpc {
struct CallOptions;
}

TENDRIL_API_BEGIN

/// Properties of remote functions that follow from their types.
namespace tendril::rpc::detail {

template <class R, class C, class... A>
struct SignatureParts {
  using Return = R;
  using Class = C;  ///< void for a free function
  using Parameters = std::tuple<A...>;
};

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R (*)(A...)> : SignatureParts<R, void, A...> {};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : SignatureParts<R, void, A...> {};
#define TENDRIL_RPC_MEMBER(qualifiers)    \
  template <class R, class C, class... A> \
  struct Signature<R (C::*)(A...) qualifiers> : SignatureParts<R, C, A...> {}
TENDRIL_RPC_MEMBER();
TENDRIL_RPC_MEMBER(const);
TENDRIL_RPC_MEMBER(noexcept);
TENDRIL_RPC_MEMBER(const noexcept);
TENDRIL_RPC_MEMBER(&);
TENDRIL_RPC_MEMBER(const&);
TENDRIL_RPC_MEMBER(&noexcept);
TENDRIL_RPC_MEMBER(const& noexcept);
#undef TENDRIL_RPC_MEMBER

/// The type that is sent for a parameter of this type.
template <class T>
struct Wire {
  using type = std::remove_cvref_t<T>;
};
template <class T>
requires std::same_as<std::remove_cvref_t<T>, std::string_view>
struct Wire<T> {
  using type = std::string;
};
template <class T>
using WireType = typename Wire<T>::type;

/// The type that is sent for an argument whose parameter type is not known (a constructor's). String literals are sent
/// as std::string.
template <class T>
using WireArgument = std::conditional_t<std::is_convertible_v<T, std::string_view>, std::string, std::decay_t<T>>;

template <class Parameters>
struct WireTuple;
template <class... P>
struct WireTuple<std::tuple<P...>> {
  using type = std::tuple<WireType<P>...>;
};

/// The type of a call's result without references and const. The result of a Future or Task is its value, which is
/// available `later`.
template <class T>
struct ResultOf {
  using type = std::remove_cvref_t<T>;
  static constexpr bool later = false;
};
template <class T>
struct ResultOf<Future<T>> {
  using type = T;
  static constexpr bool later = true;
};
template <class T>
struct ResultOf<Task<T>> {
  using type = T;
  static constexpr bool later = true;
};

/// The type of the object that an RRef to a function's result refers to. An RRef takes over the object that a smart
/// pointer owns. An RRef<void> can be waited for.
template <class T>
struct Stored {
  using type = T;
};
template <class T>
struct Stored<std::shared_ptr<T>> {
  using type = T;
};
template <class T, class D>
struct Stored<std::unique_ptr<T, D>> {
  using type = T;
};
template <class T>
using StoredType = typename Stored<T>::type;
/// The type of the object in memory, where std::monostate stands for void.
template <class T>
using ObjectType = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

/// Whether the parameter is a non-const lvalue reference, which is only useful for changing the caller's variable. That
/// variable is on another worker.
template <class P>
inline constexpr bool is_out_parameter = std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>;

template <class Parameters>
inline constexpr bool has_out_parameter = false;
template <class... P>
inline constexpr bool has_out_parameter<std::tuple<P...>> = (is_out_parameter<P> || ...);

template <class Wires, class... Args>
inline constexpr bool arguments_convert = false;
template <class... W, class... Args>
requires(sizeof...(W) == sizeof...(Args)) inline constexpr bool arguments_convert<std::tuple<W...>, Args...> =
    (std::is_convertible_v<Args, W> && ...);

template <class... Args>
inline constexpr bool begins_with_options = false;
template <class First, class... Rest>
inline constexpr bool begins_with_options<First, Rest...> = std::is_convertible_v<First, const CallOptions&>;

/// Whether F is in an unnamed namespace, so that its name exists in one source file only.
template <auto F>
constexpr bool is_in_unnamed_namespace() {
  const std::string_view name = __PRETTY_FUNCTION__;
  return name.find("{anonymous}") != name.npos || name.find("(anonymous namespace)") != name.npos;
}
template <class T>
constexpr bool type_is_in_unnamed_namespace() {
  const std::string_view name = __PRETTY_FUNCTION__;
  return name.find("{anonymous}") != name.npos || name.find("(anonymous namespace)") != name.npos;
}

}  // namespace tendril::rpc::detail

namespace tendril::rpc {

// ---- Requirements of a remote call, one concept each, so that the compiler names the one that is not met.

template <auto F>
concept RemoteFunction = std::is_function_v<std::remove_pointer_t<decltype(F)>>;
template <auto F>
concept RemoteMethod = std::is_member_function_pointer_v<decltype(F)>;
/// A function in an unnamed namespace has a different identity in every source file.
template <auto F>
concept HasExternalLinkage = !detail::is_in_unnamed_namespace<F>();
/// Arguments are copied, so a non-const reference parameter could not return anything to the caller.
template <auto F>
concept TakesNoOutParameters = !detail::has_out_parameter<typename detail::Signature<decltype(F)>::Parameters>;
template <auto F, class... Args>
concept TakesThisManyArguments = std::tuple_size_v<typename detail::Signature<decltype(F)>::Parameters>
== sizeof...(Args);
template <auto F, class... Args>
concept ArgumentsConvertToParameters =
    detail::arguments_convert<typename detail::WireTuple<typename detail::Signature<decltype(F)>::Parameters>::type,
                              Args...>;

/// F can be called with these arguments on another worker.
template <auto F, class... Args>
concept Callable = HasExternalLinkage<F> && TakesNoOutParameters<F> && TakesThisManyArguments<F, Args...> &&
    ArgumentsConvertToParameters<F, Args...>;

/// F can be called remotely, but not with these arguments, which do not begin with CallOptions. The deleted overloads
/// require this concept, so that g++ prints a single error that names F and the types of the arguments.
template <auto F, class... Args>
concept CannotBeCalledWith =
    HasExternalLinkage<F> && TakesNoOutParameters<F> && !Callable<F, Args...> && !detail::begins_with_options<Args...>;

template <auto F>
using ResultOf = typename detail::ResultOf<std::remove_cvref_t<typename detail::Signature<decltype(F)>::Return>>::type;

}  // namespace tendril::rpc

TENDRIL_API_END
