#include "tendril/tensor/storage.h"

#include "tendril/tensor/cuda/runtime/device.h"
#include "tendril/tensor/detail/out_of_memory.h"

namespace tendril {

Ref<Storage> Storage::allocate_apart(std::size_t bytes, Device device) {
  static_assert(sizeof(Storage) <= kHeader);
  const cuda::Allocation elsewhere = device.is_cpu() ? cuda::Allocation{} : cuda::allocate(bytes, device);
  auto* storage = new (memory::allocate(kHeader)) Storage;
  storage->bytes_ = bytes;
  storage->device_ = device;
  if (!device.is_cpu()) {
    storage->data_ = elsewhere.data;
    storage->context_ = elsewhere.block;
    return Ref<Storage>::first(storage);
  }
  try {
    storage->data_ = memory::allocate(bytes);
  } catch (const std::bad_alloc&) {
    memory::release(storage, kHeader);
    memory::detail::out_of_memory(bytes);
  }
  return Ref<Storage>::first(storage);
}

Ref<Storage> Storage::wrap(void* data, std::size_t bytes, Device device, Deleter deleter, void* context) {
  auto* storage = new (memory::allocate(kHeader)) Storage;
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->device_ = device;
  storage->deleter_ = deleter ? deleter : [](void*) noexcept {};
  storage->context_ = context;
  return Ref<Storage>::first(storage);
}

void Storage::destroy(Storage* storage) noexcept {
  if (!storage->deleter_ && storage->device_.is_cpu() && storage->bytes_ <= kInlineLimit) {
    const std::size_t bytes = storage->bytes_;
    storage->~Storage();
    memory::release(storage, kHeader + bytes);
  } else {
    destroy_apart(storage);
  }
}

void Storage::destroy_apart(Storage* storage) noexcept {
  if (storage->deleter_) {
    storage->deleter_(storage->context_);
  } else if (!storage->device_.is_cpu()) {
    cuda::release(storage->context_);
  } else {
    memory::release(storage->data_, storage->bytes_);
  }
  storage->~Storage();
  memory::release(storage, kHeader);
}

}  // namespace tendril
