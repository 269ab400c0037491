// A group of two workers in the simulator.
#include <tendril/rpc/call.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/simulation.h>

#include <cstdio>
#include <string>

int twice(int x) { return 2 * x; }

void run(int rank) {
  tendril::rpc::init_rpc("worker" + std::to_string(rank));
  if (tendril::rpc::rpc_sync<&twice>(1 - rank, 21) != 42) std::puts("wrong");
  tendril::rpc::shutdown();
}

int main() {
  const auto report = tendril::rpc::simulate<&run>({.world_size = 2, .seed = 1});
  std::fputs(report.text().c_str(), stdout);
  return report.all_returned() ? 0 : 1;
}
