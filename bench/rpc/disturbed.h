#pragma once

#include <functional>

#include "bench/rpc/raw.h"

namespace tendril::bench {

/// Prints how long empty calls take, one after the other, with nothing beside them, with one in a hundred of a function
/// that sleeps for 5 ms, and with a tensor of 64 MiB, and one of 400, that travel there and back over the same
/// connection all the time.
void print_disturbed(Transport transport, int client_cpu, int server_cpu, double seconds);

}  // namespace tendril::bench
