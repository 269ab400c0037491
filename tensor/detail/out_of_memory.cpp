#include "tendril/tensor/detail/out_of_memory.h"

#include "tendril/tensor/error.h"
#include "tendril/tensor/memory.h"

namespace tendril::memory::detail {

void out_of_memory(std::size_t bytes) {
  const Stats held = stats();
  tendril::detail::raise<Error>("out of memory: cannot allocate ", bytes, " bytes on cpu; ", held.live_bytes,
                                " bytes are in use, ", held.cached_bytes, " kept for reuse");
}

void out_of_memory(const char* who, const char* op) {
  const Stats held = stats();
  tendril::detail::raise<Error>("out of memory: cannot allocate what ", who, " needs for ", op, " on cpu; ",
                                held.live_bytes, " bytes are in use, ", held.cached_bytes, " kept for reuse");
}

}  // namespace tendril::memory::detail
