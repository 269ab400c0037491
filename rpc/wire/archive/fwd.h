#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class OutputArchive;
class InputArchive;

/// How a type is written and read: `static void save(OutputArchive&, const T&)` and `static void load(InputArchive&,
/// T&)`. Specialised for what archive.h lists; the primary template (archive/serializer.h) serves numbers, enums and
/// classes with Boost.Serialization's `serialize`.
template <class T, class = void>
struct Serializer;

namespace detail {
/// What is received is made first, then read.
template <class... T>
constexpr void check_default_constructible() {
  static_assert((std::is_default_constructible_v<T> && ...),
                "what is received is made by its default constructor and then read: give the class of this argument, "
                "result or element one that is public, or send an RRef to an object that stays where it is");
}
}  // namespace detail

/// Containers in containers, classes in classes: deeper than this is an error on both sides.
inline constexpr int kMaxNesting = 100;

}  // namespace tendril::rpc

TENDRIL_API_END
