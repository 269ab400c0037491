// The bytes of a hello.
#include "tendril/rpc/wire/hello.h"

#include "fuzz/input.h"
#include "tendril/rpc/error.h"

using namespace tendril::rpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  const std::span<const std::byte> bytes = input.rest();
  try {
    const auto announced = hello_size(bytes);
    if (announced) tendril::fuzz::require(*announced <= kMaxHelloBytes);
    const Hello hello = decode_hello(bytes);
    Hello mine;
    mine.worker = {"me", 0};
    mine.world_size = hello.world_size;
    try {
      check_hello(mine, {}, hello);
    } catch (const UsageError&) {
    }
    // What can be written again is read as the same.
    tendril::fuzz::require(decode_hello(encode(hello)) == hello);
  } catch (const MessageError&) {
  }
  return 0;
}
