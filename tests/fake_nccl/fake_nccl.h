#pragma once

#include <atomic>
#include <cstddef>

/// What a test may ask of the library that stands in for NCCL (fake_nccl.cpp).
struct FakeNccl {
  /// How it reads and writes what it is given: memory of the host unless a test says otherwise. Called by the thread
  /// that makes the call.
  std::atomic<void (*)(void* host, const void* device, std::size_t bytes)> read;
  std::atomic<void (*)(void* device, const void* host, std::size_t bytes)> write;
  std::atomic<int (*)()> current_device;  ///< of the calling thread, by default 0
  std::atomic<int> version;
  std::atomic<bool> broken;      ///< operations fail at all members, which find out when they ask
  std::atomic<bool> refusing;    ///< operations are refused at once
  std::atomic<int> made, ended;  ///< communicators
};
extern "C" FakeNccl* fake_nccl();
