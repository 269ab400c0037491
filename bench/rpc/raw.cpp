#include "bench/rpc/raw.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

namespace tendril::bench {
namespace {

template <class T>
T check(T result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

struct SocketPair {
  int client = -1;
  int server = -1;
};

SocketPair connect_pair(Transport transport) {
  SocketPair pair;
  if (transport == Transport::unix_socket) {
    int both[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both), "socketpair");
    pair = {both[0], both[1]};
    for (const int fd : both) {
      const int bytes = 4 << 20;  // what rpc/ asks for too
      if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      }
      if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
      }
    }
    return pair;
  }
  const int listener = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  check(listen(listener, 1), "listen");
  socklen_t length = sizeof address;
  check(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  pair.client = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  check(connect(pair.client, reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
  pair.server = check(accept(listener, nullptr, nullptr), "accept");
  close(listener);
  const int on = 1;
  for (const int fd : {pair.client, pair.server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return pair;
}

/// A buffer that is either kept or mapped anew for each message.
class Buffer {
 public:
  Buffer(std::size_t bytes, Buffers kind) : bytes_(std::max<std::size_t>(bytes, 1)), kind_(kind) { map(); }
  ~Buffer() { munmap(data_, bytes_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* next() {
    if (kind_ == Buffers::fresh) {
      munmap(data_, bytes_);
      map();
    }
    return static_cast<char*>(data_);
  }
  char* data() { return static_cast<char*>(data_); }

 private:
  void map() {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  }

  std::size_t bytes_;
  Buffers kind_;
  void* data_ = nullptr;
};

/// One side of a connection, waiting as asked.
class Side {
 public:
  Side(int fd, Waiting waiting) : fd_(fd), waiting_(waiting) {
    if (waiting != Waiting::blocking) check(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "fcntl");
    if (waiting == Waiting::epoll) {
      epoll_ = check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
      epoll_event event{};
      event.events = EPOLLIN | EPOLLET;
      check(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
    }
  }
  ~Side() {
    if (epoll_ >= 0) close(epoll_);
    close(fd_);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  /// False at the end of the stream.
  bool read(char* to, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t got = recv(fd_, to, bytes, 0);
      if (got == 0) return false;
      if (got > 0) {
        to += got;
        bytes -= static_cast<std::size_t>(got);
      } else if (errno == EAGAIN) {
        wait_for(EPOLLIN);
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

  bool write(const char* from, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t sent = send(fd_, from, bytes, MSG_NOSIGNAL);
      if (sent > 0) {
        from += sent;
        bytes -= static_cast<std::size_t>(sent);
      } else if (errno == EAGAIN) {
        wait_for(EPOLLOUT);
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  }

 private:
  void wait_for(uint32_t events) {
    if (waiting_ != Waiting::epoll) return;
    epoll_event event{};
    if (events == EPOLLOUT) {
      event.events = EPOLLOUT;
      epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event);
    }
    epoll_wait(epoll_, &event, 1, -1);
    if (events == EPOLLOUT) {
      event.events = EPOLLIN | EPOLLET;
      epoll_ctl(epoll_, EPOLL_CTL_MOD, fd_, &event);
    }
  }

  int fd_;
  Waiting waiting_;
  int epoll_ = -1;
};

void serve(int fd, const RawPingPong& game) {
  pin_to(game.server_cpu);
  Side side(fd, game.waiting);
  Buffer request(game.request_bytes, game.buffers);
  // An echo sends back what it received; other replies come from a buffer of their own.
  Buffer reply(game.reply_bytes, Buffers::warm);
  std::memset(reply.data(), 1, game.reply_bytes);
  for (;;) {
    char* in = request.next();
    if (!side.read(in, game.request_bytes)) return;
    const char* out = game.request_bytes == game.reply_bytes ? in : reply.data();
    if (!side.write(out, game.reply_bytes)) return;
  }
}

}  // namespace

const char* name_of(Transport transport) {
  return transport == Transport::unix_socket ? "unix" : transport == Transport::tcp ? "tcp" : "tls";
}

const char* name_of(Waiting waiting) {
  switch (waiting) {
    case Waiting::blocking:
      return "blocking";
    case Waiting::epoll:
      return "epoll";
    case Waiting::spinning:
      break;
  }
  return "spinning";
}

const char* name_of(Buffers buffers) { return buffers == Buffers::warm ? "warm" : "fresh"; }

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  check(sched_setaffinity(0, sizeof set, &set), "sched_setaffinity");
}

std::vector<double> play(const RawPingPong& game) {
  const SocketPair pair = connect_pair(game.transport);
  const pid_t child = check(fork(), "fork");
  if (child == 0) {
    close(pair.client);
    serve(pair.server, game);
    _exit(0);
  }
  close(pair.server);
  cpu_set_t before;
  check(sched_getaffinity(0, sizeof before, &before), "sched_getaffinity");
  pin_to(game.client_cpu);

  std::vector<double> times;
  {
    Side side(pair.client, game.waiting);
    Buffer request(game.request_bytes, Buffers::warm);
    Buffer reply(game.reply_bytes, game.buffers);
    std::memset(request.data(), 1, game.request_bytes);
    const int warm_up = game.rounds / 10 + 1;
    for (int round = -warm_up; round < game.rounds; ++round) {
      const auto start = std::chrono::steady_clock::now();
      side.write(request.data(), game.request_bytes);
      side.read(reply.next(), game.reply_bytes);
      const auto end = std::chrono::steady_clock::now();
      if (round >= 0) times.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    }
  }
  waitpid(child, nullptr, 0);
  check(sched_setaffinity(0, sizeof before, &before), "sched_setaffinity");
  std::sort(times.begin(), times.end());
  return times;
}

double percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(p * static_cast<double>(sorted.size())))];
}

double median(const std::vector<double>& sorted) { return percentile(sorted, 0.5); }

}  // namespace tendril::bench
