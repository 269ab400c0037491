#include "cuda_emulator/faults.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda_emulator/block.h"
#include "cuda_emulator/memory.h"

namespace cuda_emulator {
namespace {

thread_local bool executing = false;
struct sigaction before;

/// The process is about to end, so this may allocate: kernels do not, and host code that holds the heap's lock does
/// not touch device memory.
void explain(int, siginfo_t* info, void*) {
  ::sigaction(SIGSEGV, &before, nullptr);  // the access happens again, with the old handler
  const int device = device_at(info->si_addr);
  if (!executing && device < 0) return;
  const std::string who = !executing ? "host code" : running().empty() ? "queued work" : running();
  const std::string what = device < 0  ? "which is no device memory"
                           : executing ? "memory of device " + std::to_string(device) + ", which it has no access to"
                                       : "memory of device " + std::to_string(device);
  char text[1024];
  const int length =
      std::snprintf(text, sizeof text, "cuda_emulator: %s touched %p, %s\n", who.c_str(), info->si_addr, what.c_str());
  if (length > 0 && ::write(STDERR_FILENO, text, std::min(static_cast<std::size_t>(length), sizeof text - 1)) < 0)
    return;
}

struct SignalStack {
  SignalStack() {
    stack_t present{};
    ::sigaltstack(nullptr, &present);
    if (!(present.ss_flags & SS_DISABLE)) return;
    memory = std::malloc(kSize);
    present.ss_sp = memory;
    present.ss_size = kSize;
    present.ss_flags = 0;
    ::sigaltstack(&present, nullptr);
  }
  ~SignalStack() {
    if (memory == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    std::free(memory);
  }
  static constexpr std::size_t kSize = 64 * 1024;
  void* memory = nullptr;
};

}  // namespace

void explain_faults() {
  struct sigaction action {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &action, &before);
}

Executing::Executing() {
  thread_local SignalStack stack;
  executing = true;
}
Executing::~Executing() { executing = false; }
bool Executing::now() { return executing; }

}  // namespace cuda_emulator
