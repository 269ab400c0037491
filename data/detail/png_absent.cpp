// In place of png.cpp in a library that is built without libpng.
#include "tendril/data/detail/parse.h"
#include "tendril/tensor/error.h"

namespace tendril::data {

bool has_png() noexcept { return false; }

namespace detail {

Pixels decode_png(std::span<const std::byte>, const ImageReadOptions&, const std::string& what) {
  tendril::detail::raise<Error>(what, ": this library was built without libpng");
}

std::vector<std::byte> encode_png(const Pixels&, const std::string& what) {
  tendril::detail::raise<Error>(what, ": this library was built without libpng");
}

}  // namespace detail
}  // namespace tendril::data
