#pragma once

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space for themselves
#define TENDRIL_LITTLE_ROOM

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <new>

/// What happens where the system has no more memory.
namespace tendril::testing {

/// In a process of its own, whose address space then grows by at most `room` bytes.
template <class Body>
bool holds_with_little_room(std::size_t room, Body body) {
  const pid_t child = fork();
  if (child == 0) {
    bool held = false;
    try {
      held = body([room] {
        std::size_t pages = 0;
        std::ifstream("/proc/self/statm") >> pages;
        const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + room;
        const rlimit limit{most, most};
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(2);
      });
    } catch (const std::bad_alloc&) {
    }
    _exit(held ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace tendril::testing

#endif
