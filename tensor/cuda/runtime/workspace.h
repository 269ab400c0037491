#pragma once

#include <cstddef>
#include <new>

namespace tendril::cuda {

/// Scratch memory of the current device, in order with the current stream, from the caching allocator. 512-byte
/// aligned; uninitialised. May be freed while kernels that use it are still running on that stream: the next user of
/// the block runs after them.
class Workspace {
 public:
  /// Throws Error when memory runs out.
  explicit Workspace(std::size_t bytes);
  /// For who can do with less: `data()` is null where there is no room for `bytes`, even among what is cached, which is
  /// then not released in vain.
  Workspace(std::size_t bytes, const std::nothrow_t&);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* data() const noexcept { return data_; }
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  void* owner_ = nullptr;
  void* block_ = nullptr;
};

/// `on`: what `stream` of `device` leaves free in the caching allocator stays there, until as many calls with false.
void keep_memory_of(int device, void* stream, bool on) noexcept;
/// Whether the allocator keeps anything (TENDRIL_CUDA_CACHE).
bool is_memory_cached();

}  // namespace tendril::cuda
