// The worker's side of spawn().

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "tendril/rpc/call/uncaught.h"
#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/launch/process_launch.h"
#include "tendril/rpc/launch/spawn_registry.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/system/spawn_protocol.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/tensor/detail/signal_mask.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc {
namespace detail {
namespace {

struct Registered {
  SpawnEntry entry = nullptr;
  bool ambiguous = false;
};

// Written before main, by registrations in any order; read-only afterwards.
std::map<std::string, Registered>& registry() {
  static std::map<std::string, Registered> entries;
  return entries;
}

std::vector<std::string> program_arguments;
SpawnContext spawn_context;
bool is_worker = false;
const auto spawn_context_switched = tendril::detail::of_each_process([]() -> auto& { return spawn_context; });
const auto is_worker_switched = tendril::detail::of_each_process([]() -> auto& { return is_worker; });

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "rpc::worker_main: %s\n", what);
  std::_Exit(kFailedExitCode);
}

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) die("started as a worker, but RANK, WORLD_SIZE or MASTER_PORT is not set");
  return std::atoi(text);
}

void read_job(std::string& id, Message& arguments) {
  uint64_t id_length = 0;
  off_t offset = 0;
  auto read_some = [&](void* to, std::size_t size) {  // by position: all workers share the file
    ssize_t n;
    do n = ::pread(kJobFd, to, size, offset);
    while (n < 0 && errno == EINTR);
    if (n <= 0) die("cannot read the job");
    offset += n;
    return static_cast<std::size_t>(n);
  };
  auto read_all = [&](void* to, std::size_t size) {
    for (char* at = static_cast<char*>(to); size > 0;) {
      const std::size_t n = read_some(at, size);
      at += n;
      size -= n;
    }
  };
  read_all(&id_length, sizeof id_length);
  if (id_length > 65536) die("the job is malformed");
  id.resize(id_length);
  read_all(id.data(), id_length);
  FrameReader reader;
  while (!reader.next(arguments)) {
    const MutableBuffer buffer = reader.prepare().front();
    reader.commit(read_some(buffer.data, buffer.size));
  }
  ::close(kJobFd);
}

SharedKey receive_key() {
  std::array<std::byte, kKeyBytes> bytes;
  for (std::size_t have = 0; have < bytes.size();) {
    const ssize_t n = ::recv(kControlFd, bytes.data() + have, bytes.size() - have, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("the process that started this worker is gone");
    have += static_cast<std::size_t>(n);
  }
  SharedKey key(bytes, "the key that rpc::spawn made");
  ::explicit_bzero(bytes.data(), bytes.size());
  return key;
}

/// Ends this process when the process that called spawn() is gone, and writes the status when that process asks for it.
/// A thread is needed because PDEATHSIG alone is lost if the parent died before it was set. PDEATHSIG is set as well
/// because it also ends a stopped process.
void watch_lifeline() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const tendril::detail::SignalMask mask;
  std::thread([] {
    char byte;
    for (;;) {
      const ssize_t n = ::recv(kControlFd, &byte, 1, 0);
      if (n == 0 || (n < 0 && errno != EINTR)) ::kill(::getpid(), SIGKILL);
      if (n > 0) write_status();
    }
  }).detach();
}

void send_report(const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(kControlFd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the parent is gone, so this process is about to end
    sent += static_cast<std::size_t>(n);
  }
}

int run_function() {
  std::string id;
  Message arguments;
  try {
    read_job(id, arguments);
    const SpawnEntry entry = find_spawn_entry(id);
    if (entry == nullptr) throw RpcError("this program has no function " + demangled(id.c_str()));
    const int code = entry(spawn_context.rank, arguments);
    send_report(std::string(1, static_cast<char>(Report::done)));
    return code != 0 && (code & 0xff) == 0 ? 1 : code;  // an exit status has only the lowest byte
  } catch (...) {
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::string report(1, static_cast<char>(Report::failed));
    report.append(reinterpret_cast<const char*>(&now), sizeof now);
    report += describe_current_exception();
    report.resize(std::min(report.size(), kMaxReport));
    send_report(report);
    return kFailedExitCode;
  }
}

}  // namespace

bool register_spawn_entry(const char* id, SpawnEntry entry) {
  Registered& slot = registry()[id];
  slot.ambiguous = slot.entry != nullptr && slot.entry != entry;
  slot.entry = entry;
  return true;
}

void check_spawn_entry(const char* id) {
  TENDRIL_CHECK_AS(UsageError, !registry().at(id).ambiguous, "rpc::spawn: two functions of this program are named ",
                   demangled(id), " (both with internal linkage): rename one");
}

SpawnEntry find_spawn_entry(const std::string& id) {
  const auto found = registry().find(id);
  return found == registry().end() ? nullptr : found->second.entry;
}

const std::vector<std::string>& saved_arguments() { return program_arguments; }

void become_simulated_worker(const SpawnContext& context, const std::string& master_addr) {
  spawn_context = context;
  is_worker = true;
  record_process_launch({.by = "rpc::simulate",
                         .rank = context.rank,
                         .world_size = context.world_size,
                         .local_rank = 0,  // each worker has a separate host
                         .local_world_size = 1,
                         .master_addr = master_addr,
                         .master_port = context.master_port});
}

}  // namespace detail

const SpawnContext* SpawnContext::current() noexcept { return detail::is_worker ? &detail::spawn_context : nullptr; }

void worker_main(int argc, char** argv) {
  using namespace detail;
  program_arguments.assign(argv, argv + argc);
  if (program_arguments.empty()) program_arguments.emplace_back("program");
  const char* mark = std::getenv(kMarkVariable);
  if (mark == nullptr || std::strcmp(mark, kMark) != 0) return;

  ::unsetenv(kMarkVariable);  // programs that a worker starts are not workers
  spawn_context.rank = environment_number("RANK");
  spawn_context.world_size = environment_number("WORLD_SIZE");
  spawn_context.master_port = static_cast<uint16_t>(environment_number("MASTER_PORT"));
  spawn_context.num_threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / spawn_context.world_size);
  if (spawn_context.rank == 0) spawn_context.listener = kListenerFd;
  is_worker = true;
  // The process was started as "exe". Sets its name, so that ps, pgrep and traces show the program's name.
  const std::string& path = program_arguments.front();
  ::prctl(PR_SET_NAME, path.substr(path.rfind('/') + 1).c_str());
  record_process_launch({.by = "rpc::spawn",
                         .rank = spawn_context.rank,
                         .world_size = spawn_context.world_size,
                         .local_rank = spawn_context.rank,
                         .local_world_size = spawn_context.world_size,
                         .master_addr = kLoopback,
                         .master_port = spawn_context.master_port});
  for (int fd = kJobFd; fd <= kListenerFd; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  spawn_context.key = receive_key();
  watch_lifeline();
  std::exit(run_function());  // not _Exit: destroys static objects and flushes output buffers
}

}  // namespace tendril::rpc
