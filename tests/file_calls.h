#pragma once

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

/// Kills the process at its n-th call that changes files, where n is the environment variable TENDRIL_TEST_DIES_AT:
/// in the middle of a write, or just before any other call. Files change only at these calls, so a test that tries
/// every n covers every moment of a kill, on any machine. Replaces functions of the C library; include it in exactly
/// one source of a program.
namespace tendril::test {

/// Counts this call and returns whether the process must die at it.
inline bool dies_at_this_call() {
  static const char* const number = std::getenv("TENDRIL_TEST_DIES_AT");
  static std::atomic<long> left{number == nullptr ? 0 : std::atol(number)};
  return number != nullptr && --left == 0;
}

inline bool is_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

/// Returns the C library's function of this name.
template <class Function>
Function* next_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace tendril::test

extern "C" {

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  static auto* const next = tendril::test::next_function<decltype(write)>("write");
  if (tendril::test::is_file(descriptor) && tendril::test::dies_at_this_call()) {
    (void)next(descriptor, bytes, count / 2);
    std::raise(SIGKILL);
  }
  return next(descriptor, bytes, count);
}

int fsync(int descriptor) {
  static auto* const next = tendril::test::next_function<decltype(fsync)>("fsync");
  if (tendril::test::dies_at_this_call()) std::raise(SIGKILL);
  return next(descriptor);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  static auto* const next = tendril::test::next_function<decltype(linkat)>("linkat");
  if (tendril::test::dies_at_this_call()) std::raise(SIGKILL);
  return next(from_folder, from, to_folder, to, flags);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const next = tendril::test::next_function<decltype(rename)>("rename");
  if (tendril::test::dies_at_this_call()) std::raise(SIGKILL);
  return next(from, to);
}

int remove(const char* path) noexcept {
  static auto* const next = tendril::test::next_function<decltype(remove)>("remove");
  if (tendril::test::dies_at_this_call()) std::raise(SIGKILL);
  return next(path);
}
}
