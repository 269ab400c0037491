#include "tendril/tensor/files/detail/inflate.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "tendril/tensor/error.h"

#ifdef TENDRIL_HAS_ZLIB
#include <zlib.h>
#endif

namespace tendril::files::detail {

#ifdef TENDRIL_HAS_ZLIB

std::vector<std::byte> inflate(std::span<const std::byte> packed, std::size_t size, const std::string& what) {
  // The format cannot do better than 1032 to 1: what claims more would only take memory.
  TENDRIL_CHECK(size / 1032 <= packed.size() + 1, what, ": claims to become ", size, " bytes, which ", packed.size(),
                " compressed ones cannot");
  // It becomes as large as what really comes, and no claim takes memory before.
  std::vector<std::byte> result;
  const auto grow = [&](std::size_t written) {
    try {
      result.resize(std::min(size, std::max<std::size_t>({2 * result.size(), 4 * packed.size(), 1 << 16})));
    } catch (const std::exception&) {
      tendril::detail::raise<Error>(what, ": there is no memory for the ", size, " bytes that it becomes");
    }
    return std::span<std::byte>(result).subspan(written);
  };
  std::size_t total = 0;
  std::span<std::byte> left = grow(0);
  z_stream stream{};
  TENDRIL_CHECK(::inflateInit2(&stream, -MAX_WBITS) == Z_OK, what, ": zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, ::inflateEnd);
  // zlib counts in 32 bits.
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  int status = Z_OK;
  std::byte none{};
  while (status == Z_OK) {
    if (left.empty() && total < size) left = grow(total);
    const std::size_t in = std::min(packed.size(), kMost), out = std::min(left.size(), kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(out > 0 ? left.data() : &none);
    stream.avail_out = static_cast<uInt>(out);
    status = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t read = in - stream.avail_in, written = out - stream.avail_out;
    packed = packed.subspan(read);
    left = left.subspan(written);
    total += written;
    if (read == 0 && written == 0) break;
  }
  TENDRIL_CHECK(status == Z_STREAM_END && total == size, what, ": its compressed bytes are damaged");
  return result;
}

#else

std::vector<std::byte> inflate(std::span<const std::byte>, std::size_t, const std::string& what) {
  tendril::detail::raise<Error>(what,
                                ": is compressed, which this library was built without zlib for; expected a file "
                                "without compression (numpy.savez)");
}

#endif

}  // namespace tendril::files::detail
