#include "tendril/tensor/storage.h"

#include <new>

#include "tendril/tensor/error.h"
#include "tendril/tensor/memory.h"

namespace tendril {
namespace {

// Few elements live behind the header, in the same block: one allocation instead of two.
constexpr std::size_t kHeader = 64;
constexpr std::size_t kInlineLimit = 256;
static_assert(sizeof(Storage) <= kHeader);

}  // namespace

Ref<Storage> Storage::allocate(std::size_t bytes, Device device) {
  TENDRIL_CHECK(device.is_cpu(), "cannot allocate ", bytes, " bytes on ", device, ": this build has no such device");
  const bool inlined = bytes <= kInlineLimit;
  void* block = memory::allocate(inlined ? kHeader + bytes : kHeader);
  auto* storage = new (block) Storage;
  storage->bytes_ = bytes;
  if (inlined) {
    storage->data_ = static_cast<char*>(block) + kHeader;
  } else {
    try {
      storage->data_ = memory::allocate(bytes);
    } catch (const std::bad_alloc&) {
      memory::release(block, kHeader);
      tendril::detail::raise<Error>("out of memory: cannot allocate ", bytes, " bytes on cpu");
    }
  }
  return Ref<Storage>(storage);
}

Ref<Storage> Storage::wrap(void* data, std::size_t bytes, Device device, Deleter deleter, void* context) {
  auto* storage = new (memory::allocate(kHeader)) Storage;
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->deleter_ = deleter ? deleter : [](void*) noexcept {};
  storage->context_ = context;
  return Ref<Storage>(storage);
}

void Storage::destroy(Storage* storage) noexcept {
  std::size_t block_bytes = kHeader;
  if (storage->deleter_) {
    storage->deleter_(storage->context_);
  } else if (storage->bytes_ <= kInlineLimit) {
    block_bytes += storage->bytes_;
  } else {
    memory::release(storage->data_, storage->bytes_);
  }
  storage->~Storage();
  memory::release(storage, block_bytes);
}

}  // namespace tendril
