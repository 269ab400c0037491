#include "tendril/rpc/observe/status_signal.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <set>
#include <string_view>

#include "tendril/rpc/observe/observer.h"
#include "tendril/rpc/status.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::rpc::detail {
namespace {

Mutex signal_mutex;
std::atomic<int> signal_event = -1;  // never closed: the handler may run at any time
std::atomic<pid_t> signal_process = -1;
int watching_groups = 0;
std::set<int> spawned_by;  // eventfds of calls of spawn()

/// Calls only functions that are safe in a signal handler. A forked child without an observer ends, as it would have
/// without this handler.
void note_status_signal(int signal) {
  const int saved = errno;
  if (::getpid() != signal_process) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  } else {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(signal_event, &one, sizeof one);
  }
  errno = saved;
}

/// Installs the signal handler if necessary. Returns whether SIGUSR1 is handled here.
bool take_signal() {
  struct sigaction action {};
  if (::sigaction(SIGUSR1, nullptr, &action) != 0) return false;
  const bool ours = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == note_status_signal;
  if (ours && signal_process == ::getpid()) return true;
  const bool free = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
  if (!ours && !free) return false;
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return false;
  signal_event = event;  // a forked child must not share its parent's eventfd
  signal_process = ::getpid();
  action = {};
  action.sa_handler = note_status_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  return ::sigaction(SIGUSR1, &action, nullptr) == 0;
}

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // stderr cannot be written
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

void write_status() { write_to_stderr(status()); }

namespace {
void answer() {
  bool in_group = false;
  {
    const std::lock_guard lock(signal_mutex);
    const uint64_t one = 1;
    for (const int event : spawned_by) (void)!::write(event, &one, sizeof one);
    in_group = watching_groups > 0;
  }
  if (in_group) write_status();
}
}  // namespace

/// Waits for the event on the observer's thread. Of several instances, the one that reads it answers for all.
class StatusSignal::Watch : public std::enable_shared_from_this<Watch> {
 public:
  Watch(boost::asio::io_context& io, int event) : stream_(io, event) {}

  void arm() {
    stream_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                         if (error) return;
                         uint64_t count = 0;
                         if (::read(self->stream_.native_handle(), &count, sizeof count) == sizeof count) answer();
                         self->arm();
                       });
  }
  void end() {
    boost::system::error_code ignored;
    stream_.close(ignored);
  }

 private:
  boost::asio::posix::stream_descriptor stream_;
};

StatusSignal::StatusSignal() { watch(); }
StatusSignal::StatusSignal(int spawned) : spawned_(spawned) { watch(); }

void StatusSignal::watch() {
  const std::lock_guard lock(signal_mutex);
  if (!take_signal()) return;
  observer_ = Observer::get();  // first: it may throw
  const int event = ::fcntl(signal_event, F_DUPFD_CLOEXEC, 0);
  if (event < 0) return;
  uint64_t stale = 0;
  if (watching_groups == 0 && spawned_by.empty())
    (void)!::read(event, &stale, sizeof stale);  // of a signal that no instance answered
  if (spawned_ < 0)
    ++watching_groups;
  else
    spawned_by.insert(spawned_);
  watch_ = std::make_shared<Watch>(observer_->io(), event);
  boost::asio::post(observer_->io(), [watch = watch_] { watch->arm(); });
}

StatusSignal::~StatusSignal() {
  if (!watch_) return;
  const std::lock_guard lock(signal_mutex);
  if (spawned_ < 0)
    --watching_groups;
  else
    spawned_by.erase(spawned_);
  boost::asio::post(observer_->io(), [watch = watch_] { watch->end(); });
}

}  // namespace tendril::rpc::detail
