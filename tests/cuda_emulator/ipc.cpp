// Memory of one process that another opens (CUDA IPC): a file in memory, which is found through /proc by the handle's
// process and descriptor. Its name is in the handle too: an allocation that was freed is not mistaken for the next.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "cuda_emulator/memory.h"
#include "cuda_emulator/world.h"

namespace cuda_emulator {
namespace {

struct Handle {
  char name[32];
  std::int32_t process, descriptor;
  std::uint64_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

/// What is open, by device and name: opened again it is the same, and counted.
struct Opened {
  void* address;
  int times;
};
std::map<std::pair<int, std::string>, Opened>& opened() {
  static auto& it = *new std::map<std::pair<int, std::string>, Opened>;
  return it;
}

/// Of every shared allocation another.
std::string new_name() {
  static std::uint64_t count = 0;
  char name[32];
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  std::snprintf(name, sizeof name, "cuda-%llx-%llx", static_cast<unsigned long long>(now),
                static_cast<unsigned long long>(++count));
  return name;
}

/// The name of a file in memory.
std::string name_of(const std::string& path) {
  char target[256];
  const ssize_t length = readlink(path.c_str(), target, sizeof target);
  const std::string text(target, length < 0 ? 0 : static_cast<std::size_t>(length));
  constexpr const char* kPrefix = "/memfd:";
  if (text.rfind(kPrefix, 0) != 0) return "";
  const std::size_t begin = std::strlen(kPrefix);
  return text.substr(begin, text.find(' ') - begin);
}

cudaError_t open_handle(void** pointer, const cudaIpcMemHandle_t& given) {
  Handle handle;
  std::memcpy(&handle, &given, sizeof handle);
  handle.name[sizeof handle.name - 1] = '\0';
  if (handle.process == getpid()) return cudaErrorDeviceUninitialized;
  const std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.descriptor);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorInvalidResourceHandle;
  const std::string there = name_of("/proc/self/fd/" + std::to_string(file));
  if (there.empty() || there != handle.name || lseek(file, 0, SEEK_END) < static_cast<off_t>(handle.bytes)) {
    close(file);
    return cudaErrorInvalidResourceHandle;
  }
  Opened& entry = opened().try_emplace({current_device(), there}, Opened{nullptr, 0}).first->second;
  if (entry.times == 0) entry.address = map_shared(file, handle.bytes, current_device());
  close(file);
  if (entry.address == nullptr) {
    opened().erase({current_device(), there});
    return cudaErrorMapBufferObjectFailed;
  }
  ++entry.times;
  *pointer = entry.address;
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* pointer) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  const Allocated whole = allocation_at(pointer);
  if (out == nullptr || whole.begin != pointer) return note(cudaErrorInvalidValue);
  const int file = share(pointer, new_name().c_str());
  if (file < 0) return note(cudaErrorInvalidValue);  // a device would give the handle of more than was asked for
  Handle handle{{}, getpid(), file, whole.bytes};
  const std::string name = name_of("/proc/self/fd/" + std::to_string(file));
  std::memcpy(handle.name, name.c_str(), name.size() + 1);
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, &handle, sizeof handle);
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  Lock lock;
  if (const cudaError_t error = need_context(); error != cudaSuccess) return note(error);
  if (pointer == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return note(cudaErrorInvalidValue);
  return note(open_handle(pointer, handle));
}

cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void* pointer) {
  Lock lock;
  for (auto it = opened().begin(); it != opened().end(); ++it) {
    if (it->second.address != pointer) continue;
    if (--it->second.times == 0) {
      unmap_shared(pointer);
      opened().erase(it);
    }
    return cudaSuccess;
  }
  return note(cudaErrorInvalidValue);
}

}  // extern "C"
