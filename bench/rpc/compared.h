#pragma once

#include "bench/rpc/raw.h"

namespace tendril::bench {

/// Prints what ../pytorch/rpc.py prints too, for ../rpc.sh: one line a figure, "transport, name, value, floor" with
/// tabs between them. The floor is a ping-pong of the same bytes with epoll in this run, or empty. CPUs as pin_to's.
void print_compared(Transport transport, int client_cpu, int server_cpu, double seconds);

}  // namespace tendril::bench
