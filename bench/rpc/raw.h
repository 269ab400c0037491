#pragma once

#include <cstddef>
#include <vector>

/// The physical limit beside which RPC is measured: the same bytes between two real processes, by hand-written socket
/// code.
namespace tendril::bench {

/// With `tls`, agents encrypt and raw ping-pongs use plain TCP. With `tcp`, agents do not encrypt either.
enum class Transport { unix_socket, tcp, tls };
enum class Waiting { blocking, epoll, spinning };
enum class Buffers { warm, fresh };  ///< received into memory used before, or mapped anew for every message

const char* name_of(Transport transport);
const char* name_of(Waiting waiting);
const char* name_of(Buffers buffers);

struct RawPingPong {
  Transport transport = Transport::unix_socket;
  Waiting waiting = Waiting::epoll;
  Buffers buffers = Buffers::warm;
  std::size_t request_bytes = 64;
  std::size_t reply_bytes = 64;
  int client_cpu = 0;  ///< -1 leaves the process where it is
  int server_cpu = 1;
  int rounds = 1000;
};

/// Forks a server, plays, and returns each round trip in microseconds, sorted; a tenth of the rounds warm up uncounted.
/// Call it while the process has one thread. Throws std::system_error.
std::vector<double> play(const RawPingPong& game);

/// Pins the calling thread; -1 does nothing.
void pin_to(int cpu);

double median(const std::vector<double>& sorted);
double percentile(const std::vector<double>& sorted, double p);  ///< p in [0, 1]

}  // namespace tendril::bench
