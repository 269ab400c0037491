// lossy_bridge DELAY_MS JITTER_MS LOSS_PERCENT PORT... : a switch between network interfaces (of this network
// namespace) that delays and loses frames, for kernels without netem. SIGUSR1 disconnects the second port, SIGUSR2
// reconnects it. SIGTERM ends the program, which then prints its frame counts. Exit status 77: packet sockets are not
// permitted. lossy_bridge check PORT... : only opens the interfaces.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "tests/seed.h"

namespace lossy_bridge {

using Clock = std::chrono::steady_clock;
using tendril::testing::test_seed;

constexpr std::size_t kVirtioHeader = 10;  // struct virtio_net_hdr, whose header is not valid C++

volatile std::sig_atomic_t is_cut = 0, is_over = 0;

void on_signal(int signal) {
  if (signal == SIGUSR1) is_cut = 1;
  if (signal == SIGUSR2) is_cut = 0;
  if (signal == SIGTERM) is_over = 1;
}

struct Frame {
  std::size_t from;
  std::vector<char> bytes;  // preceded by a virtio header with the work left to the sender's card
};

/// Receives all frames that come from the host behind an interface.
int open_port(const char* name) {
  const int port = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_ALL));
  const int on = 1, room = 8 << 20;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name));
  if (port < 0 || address.sll_ifindex == 0 || ::setsockopt(port, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
      ::bind(port, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::perror("lossy_bridge");
    std::exit(77);
  }
  ::setsockopt(port, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  return port;
}

int run(double delay_ms, double jitter_ms, double loss, const std::vector<int>& ports) {
  std::mt19937 random(test_seed());  // runs with one seed drop the same frames if the same frames arrive
  std::uniform_real_distribution<double> jitter(-jitter_ms, jitter_ms);
  // One frame of each `period` is lost, at a random position, so that every run loses some.
  const long period = loss > 0 ? std::lround(100 / loss) : 0;
  long received = 0, victim = 0;
  std::multimap<Clock::time_point, Frame> on_their_way;
  std::vector<pollfd> waiting;
  for (const int port : ports) waiting.push_back({port, POLLIN, 0});
  std::vector<char> buffer(kVirtioHeader + 70'000);
  long passed = 0, lost = 0, cut = 0;
  while (!is_over) {
    ::poll(waiting.data(), waiting.size(), on_their_way.empty() ? 100 : 1);
    for (std::size_t from = 0; from < ports.size(); ++from) {
      for (;;) {
        sockaddr_ll source{};
        socklen_t size = sizeof source;
        const ssize_t got =
            ::recvfrom(ports[from], buffer.data(), buffer.size(), 0, reinterpret_cast<sockaddr*>(&source), &size);
        if (got < 0) break;
        if (source.sll_pkttype == PACKET_OUTGOING) continue;  // sent by this program
        if (period > 0 && received % period == 0) victim = std::uniform_int_distribution<long>(0, period - 1)(random);
        if (period > 0 && received++ % period == victim) {
          ++lost;
          continue;
        }
        const auto late = std::chrono::duration<double, std::milli>(delay_ms + jitter(random));
        on_their_way.emplace(Clock::now() + std::chrono::duration_cast<Clock::duration>(late),
                             Frame{from, {buffer.begin(), buffer.begin() + got}});
      }
    }
    while (!on_their_way.empty() && on_their_way.begin()->first <= Clock::now()) {
      const Frame frame = std::move(on_their_way.begin()->second);
      on_their_way.erase(on_their_way.begin());
      for (std::size_t to = 0; to < ports.size(); ++to) {
        if (to == frame.from) continue;
        const bool crosses = to == 1 || frame.from == 1;
        if (crosses && is_cut) {
          ++cut;
        } else if (::send(ports[to], frame.bytes.data(), frame.bytes.size(), 0) >= 0) {
          ++passed;
        }
      }
    }
  }
  std::printf("network: %ld frames passed, %ld lost, %ld cut off\n", passed, lost, cut);
  return 0;
}

}  // namespace lossy_bridge

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "check") == 0) {
    for (int i = 2; i < argc; ++i) lossy_bridge::open_port(argv[i]);
    return 0;
  }
  if (argc < 6) return 2;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) std::signal(signal, lossy_bridge::on_signal);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // it must not outlive hosts.sh, whose output it holds
  std::vector<int> ports;
  for (int i = 4; i < argc; ++i) ports.push_back(lossy_bridge::open_port(argv[i]));
  return lossy_bridge::run(std::atof(argv[1]), std::atof(argv[2]), std::atof(argv[3]), ports);
}
