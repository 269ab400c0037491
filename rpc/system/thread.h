#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "tendril/rpc/clock.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// std::thread, or a fibre in a simulation.
class Thread {
 public:
  Thread() = default;
  /// Starts the thread. Debuggers show the first 15 characters of its name. Throws std::system_error.
  Thread(const std::string& name, std::function<void()> body);
  Thread(Thread&& other) noexcept : thread_(std::move(other.thread_)), fibre_(std::exchange(other.fibre_, nullptr)) {}
  ~Thread() {
    if (fibre_ != nullptr) std::terminate();  // as std::thread does
  }
  Thread& operator=(Thread&& other) noexcept {
    if (fibre_ != nullptr) std::terminate();
    thread_ = std::move(other.thread_);
    fibre_ = std::exchange(other.fibre_, nullptr);
    return *this;
  }

  bool joinable() const noexcept { return fibre_ != nullptr || thread_.joinable(); }
  bool is_current() const noexcept;
  void join();
  void detach();

 private:
  std::thread thread_;
  void* fibre_ = nullptr;
};

/// Return random bits from the system, or from the seed of a simulation. Throw RpcError if the system has no source of
/// them.
void random_bytes(std::span<std::byte> to);
uint64_t random_bits();

}  // namespace tendril::rpc::detail

TENDRIL_API_END
