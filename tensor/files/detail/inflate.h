#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tendril::files::detail {

/// What `packed` (RFC 1951, as zip files hold it) becomes, which must be `size` bytes. Throws Error that begins with
/// `what` if it is something else, and in a library that was built without zlib.
std::vector<std::byte> inflate(std::span<const std::byte> packed, std::size_t size, const std::string& what);

}  // namespace tendril::files::detail
