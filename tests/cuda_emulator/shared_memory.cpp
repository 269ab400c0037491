#include "cuda_emulator/shared_memory.h"

#include <cstdint>
#include <cstring>
#include <map>

#include "cuda_emulator/device.h"
#include "cuda_emulator/sanitizer.h"

namespace cuda_emulator {
namespace {

constexpr int kPoison = 0xFF;

std::vector<unsigned char>& dynamic_bytes() {
  static auto& it = *new std::vector<unsigned char>;
  return it;
}

}  // namespace

SharedMemory::SharedMemory(const void* kernel) {
  // The function _Z1fv has the statics _ZZ1fvE4name.
  const std::string symbol = symbol_of(kernel);
  const std::string prefix = symbol.empty() ? "?" : "_Z" + symbol.substr(1) + "E";
  for (const SharedArray& array : shared_arrays()) {
    (array.symbol.rfind(prefix, 0) == 0 ? ours_ : others_).push_back(&array);
  }
}

void SharedMemory::begin_block(std::size_t dynamic) {
  dynamic_bytes().assign(dynamic + 128, kPoison);
  if (kAddressSanitizer) return;  // its red zones are part of what the symbols name
  for (const SharedArray* array : ours_) std::memset(array->address, kPoison, array->bytes);
  if (to_watch_ == 0) return;
  before_.clear();
  for (const SharedArray* array : others_) before_.insert(before_.end(), array->address, array->address + array->bytes);
}

void SharedMemory::end_block() {
  if (to_watch_ == 0 || kAddressSanitizer) return;
  const unsigned char* before = before_.data();
  std::erase_if(others_, [&](const SharedArray* array) {
    const bool changed = std::memcmp(array->address, before, array->bytes) != 0;
    before += array->bytes;
    if (changed) ours_.push_back(array);
    return changed;
  });
  if (--to_watch_ == 0) std::vector<unsigned char>().swap(before_);
}

SharedMemory& shared_memory_of(const void* kernel) {
  static auto& all = *new std::map<const void*, SharedMemory>;
  return all.try_emplace(kernel, kernel).first->second;
}

void* dynamic_shared() {
  const auto address = reinterpret_cast<std::uintptr_t>(dynamic_bytes().data());
  return dynamic_bytes().data() + (128 - address % 128) % 128;
}

}  // namespace cuda_emulator
