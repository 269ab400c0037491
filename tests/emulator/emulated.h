#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "cuda_emulator/device.h"
#include "cuda_emulator/emulator.h"

/// For tests of the emulator itself.
namespace tendril::test {

#define CUDA_OK(call) BOOST_TEST_REQUIRE((call) == cudaSuccess)

/// How a child process ended that ran some code.
struct Death {
  int signal = 0;    ///< that killed it, or 0: it came through
  std::string said;  ///< on stderr
};

/// Runs `f` in a child process, which has 20 s.
inline Death die(const std::function<void()>& f) {
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGABRT, SIG_DFL);
    ::alarm(20);
    ::dup2(ends[1], STDERR_FILENO);
    f();
    ::_exit(0);
  }
  ::close(ends[1]);
  Death death;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    death.said.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) death.signal = WTERMSIG(status);
  return death;
}

/// cudaMemcpy, by what the emulator has: on the default stream, which is waited for.
inline cudaError_t copy_now(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind = cudaMemcpyDefault) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

/// Device memory for a test. Takes the bytes of the current device.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) {
    void* memory = nullptr;
    CUDA_OK(cudaMalloc(&memory, size * sizeof(T)));
    data_ = static_cast<T*>(memory);
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    CUDA_OK(copy_now(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  /// Waits for the default stream.
  std::vector<T> values() const {
    std::vector<T> host(size_);
    CUDA_OK(copy_now(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

/// A stream of the current device.
class NewStream {
 public:
  explicit NewStream(unsigned flags = cudaStreamNonBlocking) {
    CUDA_OK(cudaStreamCreateWithPriority(&stream_, flags, 0));
  }
  ~NewStream() { cudaStreamDestroy(stream_); }
  NewStream(const NewStream&) = delete;
  NewStream& operator=(const NewStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class NewEvent {
 public:
  NewEvent() { CUDA_OK(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~NewEvent() { cudaEventDestroy(event_); }
  NewEvent(const NewEvent&) = delete;
  NewEvent& operator=(const NewEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace tendril::test
