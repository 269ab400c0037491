#pragma once

#include <cstddef>
#include <cstdint>

namespace tendril::rpc {

class OutputArchive;
class InputArchive;

/// How a type is written and read: `static void save(OutputArchive&, const T&)` and `static void load(InputArchive&,
/// T&)`. Specialised for what archive.h lists; the primary template (archive/serializer.h) serves numbers, enums and
/// classes with Boost.Serialization's `serialize`.
template <class T, class = void>
struct Serializer;

/// Containers in containers, classes in classes: deeper than this is an error on both sides.
inline constexpr int kMaxNesting = 100;

}  // namespace tendril::rpc
