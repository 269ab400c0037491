#include "tendril/rpc/spawn.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "tendril/rpc/call_context.h"
#include "tendril/rpc/launch/spawn_registry.h"
#include "tendril/rpc/observe/status_signal.h"
#include "tendril/rpc/system/spawn_protocol.h"
#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/threads/interrupt_guard.h"
#include "tendril/rpc/wire/wire.h"

extern char** environ;

namespace tendril::rpc::detail {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw RpcError("rpc::spawn: " + what + ": " + std::strerror(errno)); }

/// Moves a descriptor above the numbers that workers use for theirs.
UniqueFd raised(int fd, const char* what) {
  UniqueFd low(fd);
  if (fd < 0) fail(what);
  UniqueFd high(::fcntl(fd, F_DUPFD_CLOEXEC, kListenerFd + 1));
  if (!high) fail(what);
  return high;
}

UniqueFd make_job(const char* id, Message arguments) {
  TENDRIL_CHECK_AS(UsageError, arguments.references.empty(),
                   "rpc::spawn: an RRef cannot be an argument: the workers are not in a group yet");
  UniqueFd file = raised(::memfd_create("tendril-spawn", MFD_CLOEXEC), "memfd_create");
  auto write_all = [&](const void* data, std::size_t size) {
    const char* from = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t n = ::write(file.get(), from, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("writing the arguments");
      from += n;
      size -= static_cast<std::size_t>(n);
    }
  };
  const uint64_t id_length = std::strlen(id);
  write_all(&id_length, sizeof id_length);
  write_all(id, id_length);
  const Frame frame(std::move(arguments));
  std::array<ConstBuffer, 16> buffers;
  for (std::size_t at = 0; at < frame.size();) {
    const std::size_t count = frame.gather(at, buffers);
    for (std::size_t i = 0; i < count; at += buffers[i++].size) write_all(buffers[i].data, buffers[i].size);
  }
  return file;
}

/// Bound here and handed to rank 0, so that no other program can take the port in between.
UniqueFd make_listener(uint16_t& port) {
  UniqueFd listener = raised(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) fail("bind to 127.0.0.1");
  if (::listen(listener.get(), SOMAXCONN) != 0) fail("listen on 127.0.0.1");
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) fail("getsockname");
  port = ntohs(address.sin_port);
  return listener;
}

std::vector<std::string> worker_environment(const SpawnContext& context) {
  std::vector<std::pair<std::string, std::string>> ours = {
      {kMarkVariable, kMark},
      {"RANK", std::to_string(context.rank)},
      {"WORLD_SIZE", std::to_string(context.world_size)},
      {"LOCAL_RANK", std::to_string(context.rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(context.world_size)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(context.master_port)},
  };
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    ours.emplace_back("OMP_NUM_THREADS", std::to_string(context.num_threads));
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_ours = std::any_of(ours.begin(), ours.end(), [&](const auto& one) { return one.first == name; }) ||
                         name.starts_with("TORCHELASTIC_") || name == "TENDRIL_PORT";  // these describe another group
    if (!is_ours) result.emplace_back(text);
  }
  for (const auto& [name, value] : ours) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

struct SpawnedWorker {
  pid_t pid = -1;
  UniqueFd control;
  std::string report;
  std::optional<int> status;  ///< result of waitpid; nullopt: still running
  bool status_lost = false;   ///< another part of the program has reaped the process

  bool ended() const { return status.has_value() || status_lost; }
  bool reported_done() const { return !report.empty() && report[0] == static_cast<char>(Report::done); }
  bool reported_failed() const { return report.size() >= 9 && report[0] == static_cast<char>(Report::failed); }
  bool succeeded() const { return ended() && reported_done() && (status_lost || *status == 0); }

  void read_report() {
    char buffer[4096];
    while (control) {
      const ssize_t n = ::recv(control.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (n > 0) {
        report.append(buffer, std::min(static_cast<std::size_t>(n), kMaxReport - report.size()));
      } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        control.reset();
      } else if (errno == EAGAIN) {
        return;
      }
    }
  }

  void reap(int flags) {
    while (!ended()) {
      int value = 0;
      const pid_t got = ::waitpid(pid, &value, flags);
      if (got == pid) {
        read_report();
        status = value;
      } else if (got == 0) {
        return;
      } else if (errno != EINTR) {
        read_report();
        status_lost = true;
      }
    }
  }

  /// Failures that no other worker can have caused come first, then those that were reported earliest.
  int64_t failure_order() const {
    if (!reported_failed()) return 0;
    int64_t time = 0;
    std::memcpy(&time, report.data() + 1, sizeof time);
    return std::max<int64_t>(time, 1);
  }

  std::string reason() const {
    if (reported_failed()) return report.substr(9);
    if (status && WIFSIGNALED(*status))
      return "killed by signal " + std::to_string(WTERMSIG(*status)) + " (" + ::strsignal(WTERMSIG(*status)) + ")";
    if (status && WEXITSTATUS(*status) != 0) return "exited with code " + std::to_string(WEXITSTATUS(*status));
    return reported_done() ? "its exit status is unknown" : "exited with code 0 before its function returned";
  }
};

/// The workers of one spawn(). The destructor ends those that still run.
class Launch {
 public:
  explicit Launch(const SpawnOptions& options) : options_(options), workers_(options.world_size) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() { end_all(); }

  void start(const char* id, Message arguments) {
    SpawnContext context;
    context.world_size = options_.world_size;
    context.key = SharedKey::random();
    context.num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / options_.world_size);
    const UniqueFd job = make_job(id, std::move(arguments));
    const UniqueFd listener = make_listener(context.master_port);
    for (context.rank = 0; context.rank < options_.world_size; ++context.rank)
      start_one(context, job.get(), context.rank == 0 ? listener.get() : -1);
  }

  void wait(const InterruptGuard& interrupts) {
    const auto deadline = options_.timeout > 0ms ? deadline_after(options_.timeout) : SteadyClock::time_point::max();
    const auto all_ended = [&] {
      return std::all_of(workers_.begin(), workers_.end(), [](const SpawnedWorker& w) { return w.ended(); });
    };
    while (!all_ended()) {
      poll_workers(interrupts.fd(), deadline);
      if (interrupts.caught() != 0) return;
      for (int rank = 0; rank < options_.world_size; ++rank)
        if (workers_[rank].ended() && !workers_[rank].succeeded()) throw_failure();
      if (SteadyClock::now() >= deadline && !all_ended()) throw_timeout();
    }
  }

  bool all_returned() const {
    return std::all_of(workers_.begin(), workers_.end(), [](const SpawnedWorker& w) { return w.succeeded(); });
  }

  /// Lists the failures that workers have reported, one per line.
  std::string told_failures() const {
    std::string text;
    for (int rank = 0; rank < options_.world_size; ++rank)
      if (workers_[rank].reported_failed()) text += "\n  rank " + std::to_string(rank) + ": " + workers_[rank].reason();
    return text;
  }

  void end_all() noexcept {
    signal_all(SIGTERM);
    const auto deadline = deadline_after(options_.grace);
    while (
        std::any_of(workers_.begin(), workers_.end(), [](const SpawnedWorker& w) { return w.pid > 0 && !w.ended(); }) &&
        SteadyClock::now() < deadline)
      poll_workers(-1, deadline);
    signal_all(SIGKILL);
    for (SpawnedWorker& worker : workers_)
      if (worker.pid > 0) worker.reap(0);  // ends soon, because SIGKILL cannot be blocked
  }

 private:
  void start_one(const SpawnContext& context, int job, int listener) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair");
    UniqueFd mine(pair[0]);
    const auto key = context.key.bytes();  // fits into the empty socket buffer
    if (::send(mine.get(), key.data(), key.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(key.size())) fail("send");
    const UniqueFd theirs = raised(pair[1], "socketpair");

    std::vector<std::string> arguments = saved_arguments(), environment = worker_environment(context);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, job, kJobFd);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kControlFd);
    if (listener >= 0) ::posix_spawn_file_actions_adddup2(&actions, listener, kListenerFd);
    // Closes all other descriptors in the worker, even those that were opened without close-on-exec.
    ::posix_spawn_file_actions_addclosefrom_np(&actions, listener >= 0 ? kListenerFd + 1 : kListenerFd);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    ::sigemptyset(&none);  // the calling thread may block SIGTERM; a worker must not
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

    SpawnedWorker& worker = workers_[context.rank];
    const int error = ::posix_spawn(&worker.pid, "/proc/self/exe", &actions, &attributes, pointers(arguments).data(),
                                    pointers(environment).data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
      worker.pid = -1;
      errno = error;
      fail("starting the worker of rank " + std::to_string(context.rank));
    }
    worker.control = std::move(mine);
  }

  /// Waits until a worker reports or ends, `extra_fd` is readable, or the deadline passes. Then reads reports and reaps
  /// ended workers.
  void poll_workers(int extra_fd, SteadyClock::time_point deadline) {
    std::vector<pollfd> fds;
    if (extra_fd >= 0) fds.push_back({extra_fd, POLLIN, 0});
    fds.push_back({status_asked_.get(), POLLIN, 0});
    // The control socket closes when the process ends, a moment before it can be reaped. The long interval is for a
    // worker whose own child holds that socket open.
    auto interval = 500ms;
    for (const SpawnedWorker& worker : workers_) {
      if (worker.control) fds.push_back({worker.control.get(), POLLIN, 0});
      if (!worker.control && worker.pid > 0 && !worker.ended()) interval = 2ms;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left, 0ms, interval).count()));
    uint64_t times = 0;
    if (::read(status_asked_.get(), &times, sizeof times) == sizeof times) ask_for_status();
    for (SpawnedWorker& worker : workers_) {
      if (worker.pid <= 0) continue;
      worker.read_report();
      worker.reap(WNOHANG);
    }
  }

  /// Uses the control socket, because SIGUSR1 would kill a worker that is not in a group yet.
  void ask_for_status() {
    const char byte = 0;
    for (const SpawnedWorker& worker : workers_)
      if (worker.control) (void)!::send(worker.control.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void signal_all(int signal) noexcept {
    for (const SpawnedWorker& worker : workers_)
      if (worker.pid > 0 && !worker.ended()) ::kill(worker.pid, signal);
  }

  [[noreturn]] void throw_failure() {
    // One worker's failure makes others fail, because their calls to it fail. Waits for workers that are ending now, so
    // that the error can name the first failure.
    const auto patience = SteadyClock::now() + 200ms;
    auto is_ending = [](const SpawnedWorker& w) { return !w.ended() && (!w.control || w.reported_failed()); };
    while (std::any_of(workers_.begin(), workers_.end(), is_ending) && SteadyClock::now() < patience)
      poll_workers(-1, patience);
    std::vector<int> failed;
    for (int rank = 0; rank < options_.world_size; ++rank)
      if (workers_[rank].reported_failed() || (workers_[rank].ended() && !workers_[rank].succeeded()))
        failed.push_back(rank);  // a worker that reported its failure may end later than workers that it made fail
    std::stable_sort(failed.begin(), failed.end(),
                     [&](int a, int b) { return workers_[a].failure_order() < workers_[b].failure_order(); });
    std::string message = "rpc::spawn: the worker of rank " + std::to_string(failed[0]) + " of " +
                          std::to_string(options_.world_size) + " failed: " + workers_[failed[0]].reason();
    for (std::size_t i = 1; i < failed.size(); ++i)
      message += "\n  then rank " + std::to_string(failed[i]) + ": " + workers_[failed[i]].reason();
    throw SpawnError(message, failed[0]);
  }

  [[noreturn]] void throw_timeout() {
    std::string ranks;
    int first = -1;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (workers_[rank].ended()) continue;
      if (first < 0) first = rank;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    throw SpawnError("rpc::spawn: not done after " + std::to_string(options_.timeout.count()) +
                         " ms; these ranks were still running: " + ranks,
                     first);
  }

  static UniqueFd make_event() {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event) fail("eventfd");
    return event;
  }

  SpawnOptions options_;
  std::vector<SpawnedWorker> workers_;
  const UniqueFd status_asked_ = make_event();
  const StatusSignal status_signal_{status_asked_.get()};
};

}  // namespace

void spawn(const char* id, Message arguments, const SpawnOptions& options) {
  TENDRIL_CHECK_AS(UsageError, options.world_size >= 1 && options.world_size <= 4096,
                   "rpc::spawn: world_size must be 1 to 4096, got ", options.world_size);
  TENDRIL_CHECK_AS(UsageError, options.grace >= 0ms && options.timeout >= 0ms,
                   "rpc::spawn: grace and timeout must not be negative");
  TENDRIL_CHECK_AS(UsageError, !saved_arguments().empty(),
                   "rpc::spawn: main must begin with tendril::rpc::worker_main(argc, argv), because workers run this "
                   "program");
  check_spawn_entry(id);

  InterruptGuard interrupts;
  bool all_returned = false;
  std::string failures;
  {
    Launch launch(options);
    launch.start(id, std::move(arguments));
    launch.wait(interrupts);
    if (interrupts.caught() != 0) launch.end_all();
    all_returned = launch.all_returned();
    failures = launch.told_failures();
  }
  if (const int signal = interrupts.caught(); signal != 0) {
    interrupts.pass_on();  // ends this process if the signal has its default action
    if (all_returned) return;
    throw RpcError(std::string("rpc::spawn: ended by signal ") + std::to_string(signal) + " (" + ::strsignal(signal) +
                   ")" + failures);
  }
}

}  // namespace tendril::rpc::detail
