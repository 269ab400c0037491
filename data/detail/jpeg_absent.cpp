// In place of jpeg.cpp in a library that is built without libjpeg-turbo.
#include "tendril/data/detail/parse.h"
#include "tendril/tensor/error.h"

namespace tendril::data {

bool has_jpeg() noexcept { return false; }

namespace detail {

Pixels decode_jpeg(std::span<const std::byte>, const ImageReadOptions&, const std::string& what) {
  tendril::detail::raise<Error>(what, ": this library was built without libjpeg-turbo");
}

}  // namespace detail
}  // namespace tendril::data
