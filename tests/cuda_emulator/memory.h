#pragma once

#include <cstddef>

/// The memory of the emulated devices and the pinned memory of the host. All under the world's lock.
namespace cuda_emulator {

/// Lets kernels on `device` touch its memory and that of the peers it enabled; no other device's.
void open_memory(int device);
/// Besides: a copy may touch any device's memory. Nothing for -1.
void open_also(int device);
/// Nobody may. Cheap when nothing is open.
void close_memory();

enum class Place { kPageable, kPinned, kDevice };

struct Location {
  Place place = Place::kPageable;
  int device = -1;        ///< of device memory
  std::size_t bytes = 0;  ///< from the address to its allocation's end; 0 for device memory that is not allocated
};
Location locate(const void* address);
/// Bytes of the device's memory.
std::size_t memory_size(int device);
/// The device whose memory, allocated or not, this is; or -1. Needs no lock.
int device_at(const void* address);

/// The allocation of this process or another's that holds the address; {null, 0} for none.
struct Allocated {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};
Allocated allocation_at(const void* address);
/// Puts the allocation that begins there into a file of that name in memory, where another process finds it; its
/// descriptor, the same again for the same allocation, which closes it when it is freed. -1: there is none, or it is
/// too small to have pages of its own.
int share(void* address, const char* name);
/// Maps another process's so, for work of `device`. Null: it cannot be.
void* map_shared(int descriptor, std::size_t bytes, int device);
/// What work is still queued for it finds nothing there. False: nothing is mapped there.
bool unmap_shared(void* address);

/// After a piece of work: ends the process if something was written just behind an allocation (of a few of them, in
/// turn; freeing one checks it too).
void check_ends();

}  // namespace cuda_emulator
