// An all_reduce of a large tensor among processes of this machine over loopback TCP, beside bare sockets that carry in
// the same directions at the same time as many bytes as the ring does: each member 2 (n-1) / n of the tensor to the
// next. The two take turns, round by round, in the same processes. Beside the time, the processors' time of all
// members: what a machine with other work on it still shows.
//
//     bench_dist_all_reduce [MEMBERS] [MEGABYTES] [ROUNDS] [CHUNK KILOBYTES]
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/collectives.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/threads.h"

using namespace tendril;
using Clock = std::chrono::steady_clock;

namespace all_reduce_bench {

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

/// A connection to the next member and one from the member before.
class Neighbours {
 public:
  Neighbours(int rank, int size) {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    check(::bind(listener, generic, length) == 0 && ::listen(listener, 1) == 0, "listen");
    check(::getsockname(listener, generic, &length) == 0, "getsockname");
    const std::vector<int> ports = rpc::all_gather(static_cast<int>(ntohs(address.sin_port)));
    to_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_port = htons(static_cast<uint16_t>(ports[static_cast<std::size_t>((rank + 1) % size)]));
    check(::connect(to_, generic, sizeof address) == 0, "connect");
    from_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    check(from_ >= 0, "accept");
    ::close(listener);
    const int yes = 1;
    ::setsockopt(to_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  ~Neighbours() {
    ::close(to_);
    ::close(from_);
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  void exchange(const std::vector<char>& out, std::vector<char>& in) const {
    std::jthread sender([&] {
      for (std::size_t sent = 0; sent < out.size();) {
        const ssize_t n = ::send(to_, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) return;  // the receiver notices
        sent += static_cast<std::size_t>(n);
      }
    });
    for (std::size_t got = 0; got < in.size();) {
      const ssize_t n = ::recv(from_, in.data() + got, in.size() - got, 0);
      check(n > 0, "recv");
      got += static_cast<std::size_t>(n);
    }
  }

 private:
  int to_ = -1, from_ = -1;
};

/// This process's, in seconds.
double processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What the rounds of one kind took.
struct Times {
  std::vector<double> wall, processors;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(int rank, int size, int megabytes, int rounds, int chunk_kilobytes) {
  set_num_threads(1);
  rpc::init_rpc(std::string("w").append(std::to_string(rank)));
  {
    std::vector<std::string> names;
    for (int r = 0; r < size; ++r) names.push_back(std::string("w").append(std::to_string(r)));
    dist::ProcessGroup group(names, {.chunk_bytes = static_cast<std::size_t>(chunk_kilobytes) << 10});
    const Neighbours sockets(rank, size);
    const int64_t bytes = int64_t{megabytes} * 1'000'000;
    const auto moved = static_cast<std::size_t>(2 * (size - 1) * bytes / size);
    const std::vector<char> out(moved, 1);
    std::vector<char> in(moved);
    const Tensor x = ones({bytes / 4});
    Times raw, ring, by_rank;
    const auto timed = [&](Times& into, int round, const auto& f) {
      group.barrier();
      const double before = processor_time();
      const auto start = Clock::now();
      f();
      const std::chrono::duration<double> mine = Clock::now() - start;
      const double processor = processor_time() - before;
      const std::vector<double> all = rpc::all_gather(mine.count()), processors = rpc::all_gather(processor);
      if (round == 0) return;  // warms up
      into.wall.push_back(*std::max_element(all.begin(), all.end()));
      into.processors.push_back(std::accumulate(processors.begin(), processors.end(), 0.0));
    };
    for (int round = 0; round <= rounds; ++round) {
      timed(raw, round, [&] { sockets.exchange(out, in); });
      timed(ring, round, [&] { group.all_reduce(x, dist::ReduceOp::average, {.deterministic = false}); });
      timed(by_rank, round, [&] { group.all_reduce(x, dist::ReduceOp::average, {.deterministic = true}); });
    }
    if (rank == 0) {
      std::printf(
          "| %d members, %d MB | ms | GB/s each way | of the bare sockets' | processors' ms | of the bare sockets' |\n"
          "|---|---|---|---|---|---|\n",
          size, megabytes);
      const auto line = [&](const char* what, const Times& times) {
        const double wall = median(times.wall), processors = median(times.processors);
        std::printf("| %s | %.1f | %.2f | %.2f | %.1f | %.2f |\n", what, 1e3 * wall,
                    static_cast<double>(moved) / wall / 1e9, median(raw.wall) / wall, 1e3 * processors,
                    median(raw.processors) / processors);
      };
      line("bare sockets", raw);
      line("all_reduce, ring", ring);
      line("all_reduce, deterministic", by_rank);
      std::fflush(stdout);
    }
  }
  rpc::shutdown();
}

}  // namespace all_reduce_bench

int main(int argc, char** argv) {
  ::setenv("TENDRIL_TRANSPORT", "tcp", 1);  // workers inherit it
  rpc::worker_main(argc, argv);
  const int members = argc > 1 ? std::atoi(argv[1]) : 2, megabytes = argc > 2 ? std::atoi(argv[2]) : 100,
            rounds = argc > 3 ? std::atoi(argv[3]) : 15, chunk = argc > 4 ? std::atoi(argv[4]) : 0;
  if (members < 2 || megabytes < 1 || rounds < 1 || chunk < 0) {
    std::fprintf(stderr,
                 "usage: %s [MEMBERS >= 2] [MEGABYTES >= 1] [ROUNDS >= 1] [CHUNK KILOBYTES, 0: as by default]\n",
                 argv[0]);
    return 2;
  }
  try {
    rpc::spawn<&all_reduce_bench::run>(members, members, megabytes, rounds, chunk);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
