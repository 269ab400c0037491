#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class OutputArchive;
class InputArchive;

/// Writes and reads a type: `static void save(OutputArchive&, const T&)` and `static void load(InputArchive&, T&)`.
/// Specialised for the types that archive.h lists; the primary template (archive/serializer.h) handles numbers, enums
/// and classes with Boost.Serialization's `serialize`.
template <class T, class = void>
struct Serializer;

namespace detail {
/// Received values are default-constructed first, and then read.
template <class... T>
constexpr void check_default_constructible() {
  static_assert((std::is_default_constructible_v<T> && ...),
                "a received value is made by its default constructor and then read: give the class of this argument, "
                "result or element a public one, or send an RRef to an object that stays where it is");
}
}  // namespace detail

/// Containers and classes nested deeper than this are an error on both sides.
inline constexpr int kMaxNesting = 100;

}  // namespace tendril::rpc

TENDRIL_API_END
