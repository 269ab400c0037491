#include "cuda_emulator/shared_memory.h"

#include <algorithm>
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
  for (const SharedArray& array : shared_arrays()) ours_.push_back(array.symbol.rfind(prefix, 0) == 0);
}

void SharedMemory::begin_block(std::size_t dynamic) {
  dynamic_bytes().assign(dynamic + 128, kPoison);
  if (kAddressSanitizer) return;  // its red zones are part of what the symbols name
  const std::vector<SharedArray>& arrays = shared_arrays();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (ours_[i] || to_watch_ > 0) std::memset(arrays[i].address, kPoison, arrays[i].bytes);
  }
}

void SharedMemory::end_block() {
  if (to_watch_ == 0 || kAddressSanitizer) return;
  --to_watch_;
  const std::vector<SharedArray>& arrays = shared_arrays();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const unsigned char* const begin = arrays[i].address;
    if (!std::all_of(begin, begin + arrays[i].bytes, [](unsigned char byte) { return byte == kPoison; }))
      ours_[i] = true;
  }
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
