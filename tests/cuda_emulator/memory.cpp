#include "cuda_emulator/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <string>

#include "cuda_emulator/block.h"
#include "cuda_emulator/sanitizer.h"
#include "cuda_emulator/settings.h"
#include "cuda_emulator/world.h"

namespace cuda_emulator {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};
constexpr std::size_t kAlignment = 512;  // what cudaMalloc gives
constexpr std::size_t kPage = 4096;
constexpr std::size_t kOwnPages = 2 << 20;  // as a device: such an allocation has pages of its own, and can be shared
constexpr std::size_t kStep = 32 << 20;     // memory comes into use by so much
constexpr std::size_t kHugePage = 2 << 20;  // opening and closing a region costs per page
constexpr int kPoison = 0xFF;               // a NaN in every floating type, -1 in every integer

/// An allocation is followed by bytes that nobody may write.
constexpr std::size_t kGuard = 512;

struct Block {
  explicit Block(std::size_t wanted)
      : bytes(wanted), step(wanted < kOwnPages ? kAlignment : kPage), rounded((wanted + step - 1) / step * step) {}
  std::size_t bytes;    // that were asked for
  std::size_t step;     // where it may begin
  std::size_t rounded;  // what CUDA would take
  int shared = -1;      // the file that it lies in
  std::size_t length() const { return rounded + std::max(step, kGuard); }
};

/// One device's memory: a reserved region, whose pages come when they are touched.
struct Region {
  unsigned char* base = nullptr;
  std::size_t size = 0;  // without the guards
  std::size_t reserved = 0;
  std::size_t usable = 0;
  std::size_t used = 0;
  std::map<std::size_t, Block> blocks;  // by offset
  std::size_t next_checked = 0;
  bool open = false;

  /// First fit; kNowhere for none.
  std::size_t find(const Block& wanted) const {
    if (wanted.rounded > size - used) return kNowhere;
    std::size_t at = 0;
    const auto begin = [&] { return (at + wanted.step - 1) / wanted.step * wanted.step; };
    for (const auto& [offset, block] : blocks) {
      if (offset >= begin() + wanted.length()) return begin();
      at = offset + block.length();
    }
    return reserved >= begin() + wanted.length() ? begin() : kNowhere;
  }
  /// Makes the first bytes usable. Few of the reserved pages are: each costs when the region is opened or closed.
  void grow(std::size_t bytes) {
    if (bytes <= usable) return;
    protect(false);
    usable = std::min(reserved, (bytes + kStep - 1) / kStep * kStep);
    madvise(base, usable, MADV_HUGEPAGE);
  }
  void protect(bool opened) {
    if (open == opened || usable == 0) return;
    if (mprotect(base, usable, opened ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
      std::perror("cuda_emulator: mprotect");
      std::abort();
    }
    open = opened;
  }
};

std::vector<Region> reserve() {
  const std::size_t size =
      (from_environment("TENDRIL_EMULATED_MEMORY", std::size_t{1} << 30) + kAlignment - 1) / kAlignment * kAlignment;
  std::vector<Region> regions(static_cast<std::size_t>(world().devices));
  for (Region& region : regions) {
    region.size = size;
    region.reserved = (2 * size + kHugePage - 1) / kHugePage * kHugePage;  // each allocation may be mostly guard
    const std::size_t mapped = region.reserved + kHugePage;
    void* const memory = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("cuda_emulator: mmap");
      std::abort();
    }
    forbid(memory, mapped);
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    region.base = static_cast<unsigned char*>(memory) + (kHugePage - address % kHugePage) % kHugePage;
  }
  return regions;
}

std::vector<Region>& regions() {
  static std::vector<Region>& it = *new std::vector<Region>(reserve());
  return it;
}

/// Another process's allocation, for work of one device.
struct Mapped {
  unsigned char* base;
  std::size_t bytes;
  int device;
  bool open = false;

  void protect(bool opened) {
    if (open != opened) mprotect(base, bytes, opened ? PROT_READ | PROT_WRITE : PROT_NONE);
    open = opened;
  }
};

std::vector<Mapped>& mapped() {
  static auto& it = *new std::vector<Mapped>;
  return it;
}

Mapped* mapped_at(const void* address) {
  const auto* const byte = static_cast<const unsigned char*>(address);
  for (Mapped& one : mapped()) {
    if (byte >= one.base && byte < one.base + one.bytes) return &one;
  }
  return nullptr;
}

/// Pinned memory, by its first byte.
std::map<const unsigned char*, std::size_t>& pinned() {
  static auto& it = *new std::map<const unsigned char*, std::size_t>;
  return it;
}

Region* region_of(const void* address) {
  const auto* const byte = static_cast<const unsigned char*>(address);
  for (Region& region : regions()) {
    if (byte >= region.base && byte < region.base + region.reserved) return &region;
  }
  return nullptr;
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  Region& region = regions()[static_cast<std::size_t>(device)];
  if (bytes > region.size || world().refuses_memory) return cudaErrorMemoryAllocation;
  const Block block(bytes);
  const std::size_t offset = region.find(block);
  if (offset == kNowhere) return cudaErrorMemoryAllocation;
  region.blocks.emplace(offset, block);
  region.used += block.rounded;
  region.grow(offset + block.length());
  region.protect(true);
  allow(region.base + offset, block.length());
  std::memset(region.base + offset, kPoison, block.length());
  forbid(region.base + offset + bytes, block.length() - bytes);
  *pointer = region.base + offset;
  ++world().counters.allocations;
  world().counters.allocated_bytes += block.rounded;
  return cudaSuccess;
}

/// Ends the process if anything was written between the bytes that were asked for and the end of the guard.
void check_end(const Region& region, std::size_t offset, const Block& block) {
  if (kAddressSanitizer) return;
  const unsigned char* const begin = region.base + offset + block.bytes;
  const unsigned char* const end = region.base + offset + block.length();
  static const std::vector<unsigned char> untouched(2 * kPage, kPoison);
  if (std::memcmp(begin, untouched.data(), static_cast<std::size_t>(end - begin)) == 0) return;
  const auto* const written = std::find_if(begin, end, [](unsigned char byte) { return byte != kPoison; });
  std::fprintf(stderr, "cuda_emulator: byte %zu of an allocation of %zu was written, on device %d; last ran %s\n",
               static_cast<std::size_t>(written - region.base) - offset, block.bytes,
               static_cast<int>(&region - regions().data()), last_run().c_str());
  std::fflush(stderr);
  std::abort();
}

void release(Region& region, std::map<std::size_t, Block>::iterator at) {
  const auto& [offset, block] = *at;
  region.protect(true);
  check_end(region, offset, block);
  allow(region.base + offset, block.length());
  std::memset(region.base + offset, kPoison, block.length());
  forbid(region.base + offset, block.length());
  if (block.shared >= 0) {  // whoever still has it open reads what was just written; the next one has pages of its own
    mmap(region.base + offset, block.rounded, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    close(block.shared);
  }
  ++world().counters.frees;
  world().counters.allocated_bytes -= block.rounded;
  region.used -= block.rounded;
  region.blocks.erase(at);
}

cudaError_t pin(void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(memory, kPoison, bytes);
  pinned().emplace(static_cast<unsigned char*>(memory), bytes);
  *pointer = memory;
  return cudaSuccess;
}

}  // namespace

void open_memory(int device) {
  for (std::size_t i = 0; i < regions().size(); ++i) {
    const int other = static_cast<int>(i);
    regions()[i].protect(other == device || world().peers.count({device, other}) != 0);
  }
  for (Mapped& one : mapped()) one.protect(one.device == device);
}

void open_also(int device) {
  if (device < 0) return;
  regions()[static_cast<std::size_t>(device)].protect(true);
  for (Mapped& one : mapped()) one.protect(one.open || one.device == device);
}

void close_memory() {
  for (Region& region : regions()) region.protect(false);
  for (Mapped& one : mapped()) one.protect(false);
}

Location locate(const void* address) {
  if (Region* const region = region_of(address)) {
    Location where{Place::kDevice, static_cast<int>(region - regions().data()), 0};
    const auto offset = static_cast<std::size_t>(static_cast<const unsigned char*>(address) - region->base);
    auto block = region->blocks.upper_bound(offset);
    if (block != region->blocks.begin() && offset < (--block)->first + block->second.bytes) {
      where.bytes = block->first + block->second.bytes - offset;
    }
    return where;
  }
  const auto* const byte = static_cast<const unsigned char*>(address);
  if (const Mapped* const one = mapped_at(address)) {
    return {Place::kDevice, one->device, static_cast<std::size_t>(one->base + one->bytes - byte)};
  }
  auto range = pinned().upper_bound(byte);
  if (range != pinned().begin() && byte < (--range)->first + range->second) {
    return {Place::kPinned, -1, static_cast<std::size_t>(range->first + range->second - byte)};
  }
  return {};
}

std::size_t memory_size(int device) { return regions()[static_cast<std::size_t>(device)].size; }

void refuse_memory(bool on) {
  Lock lock;
  world().refuses_memory = on;
}

int device_at(const void* address) {
  if (const Mapped* const one = mapped_at(address)) return one->device;
  const Region* const region = region_of(address);
  return region == nullptr ? -1 : static_cast<int>(region - regions().data());
}

Allocated allocation_at(const void* address) {
  if (const Mapped* const one = mapped_at(address)) return {one->base, one->bytes};
  const Location where = locate(address);
  if (where.place != Place::kDevice || where.bytes == 0) return {};
  const Region& region = *region_of(address);
  const auto offset = static_cast<std::size_t>(static_cast<const unsigned char*>(address) - region.base);
  const auto& [begin, block] = *std::prev(region.blocks.upper_bound(offset));
  return {region.base + begin, block.bytes};
}

int share(void* address, const char* name) {
  Region* const region = region_of(address);
  if (region == nullptr) return -1;
  auto* const begin = static_cast<unsigned char*>(address);
  const auto found = region->blocks.find(static_cast<std::size_t>(begin - region->base));
  if (found == region->blocks.end() || found->second.step != kPage) return -1;
  Block& block = found->second;
  if (block.shared >= 0) return block.shared;
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) return -1;
  region->protect(true);
  bool copied = ftruncate(file, static_cast<off_t>(block.rounded)) == 0;
  for (std::size_t at = 0; copied && at < block.rounded;) {
    const ssize_t wrote = pwrite(file, begin + at, block.rounded - at, static_cast<off_t>(at));
    copied = wrote > 0;
    at += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  if (!copied || mmap(begin, block.rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    close(file);
    return -1;
  }
  return block.shared = file;
}

void* map_shared(int descriptor, std::size_t bytes, int device) {
  void* const base = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) return nullptr;
  mapped().push_back({static_cast<unsigned char*>(base), bytes, device});
  return base;
}

bool unmap_shared(void* address) {
  Mapped* const one = mapped_at(address);
  if (one == nullptr || one->base != address) return false;
  munmap(one->base, one->bytes);
  mapped().erase(mapped().begin() + (one - mapped().data()));
  return true;
}

void check_ends() {
  constexpr int kAtOnce = 16;
  for (Region& region : regions()) {
    if (!region.open) continue;
    auto block = region.blocks.lower_bound(region.next_checked);
    for (int i = 0; i < kAtOnce && block != region.blocks.end(); ++i, ++block)
      check_end(region, block->first, block->second);
    region.next_checked = block == region.blocks.end() ? 0 : block->first;
  }
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** pointer, size_t bytes) {
  Lock lock;
  return note(allocate(pointer, bytes));
}

cudaError_t CUDARTAPI cudaFree(void* pointer) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (pointer == nullptr) return cudaSuccess;
  Region* const region = region_of(pointer);
  if (region == nullptr) return note(cudaErrorInvalidValue);
  drive_device(lock, static_cast<int>(region - regions().data()));
  const auto block = region->blocks.find(static_cast<std::size_t>(static_cast<unsigned char*>(pointer) - region->base));
  if (block == region->blocks.end()) return note(cudaErrorInvalidValue);
  release(*region, block);
  ++world().counters.synchronisations;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free, size_t* total) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  const Region& region = regions()[static_cast<std::size_t>(current_device())];
  if (free != nullptr) *free = world().refuses_memory ? 0 : region.size - region.used;
  if (total != nullptr) *total = region.size;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  Lock lock;
  return note(pin(pointer, bytes));
}

cudaError_t CUDARTAPI cudaFreeHost(void* pointer) {
  Lock lock;
  if (pointer == nullptr) return cudaSuccess;
  const auto range = pinned().find(static_cast<unsigned char*>(pointer));
  if (range == pinned().end()) return note(cudaErrorInvalidValue);
  for (int device = 0; device < world().devices; ++device) drive_device(lock, device);
  ++world().counters.synchronisations;
  pinned().erase(range);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** on_device, void* pointer, unsigned) {
  Lock lock;
  if (on_device == nullptr || locate(pointer).place != Place::kPinned) return note(cudaErrorInvalidValue);
  *on_device = pointer;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (attributes == nullptr) return note(cudaErrorInvalidValue);
  *attributes = {};
  const Location where = locate(pointer);
  void* const address = const_cast<void*>(pointer);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;  // cudaInvalidDeviceId
  attributes->hostPointer = address;
  if (where.place == Place::kDevice && where.bytes > 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = where.device;
    attributes->devicePointer = address;
    attributes->hostPointer = nullptr;
  } else if (where.place == Place::kPinned) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = current_device();
    attributes->devicePointer = address;
  }
  return cudaSuccess;
}

}  // extern "C"
