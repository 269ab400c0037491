// Two workers on this host that call each other.
//
//   ./hello_rpc               (or: mpirun -n 2 ./hello_rpc, srun -n 2 ./hello_rpc, ...)

#include <tendril/rpc/call.h>
#include <tendril/rpc/group.h>
#include <tendril/rpc/launch.h>

#include <cstdio>
#include <string>

namespace rpc = tendril::rpc;

namespace hello {

/// Runs on the called worker.
std::string ping(const std::string& from) { return "pong from " + rpc::get_worker_info().name + " to " + from; }

/// Runs in each of the two processes.
void run_worker(int rank, const std::string& greeting) {
  const std::string me = rank == 0 ? "alice" : "bob", other = rank == 0 ? "bob" : "alice";
  rpc::init_rpc(me);
  const std::string answer = rpc::rpc_sync<&ping>(other, me);
  std::printf("%s: %s (%s)\n", me.c_str(), answer.c_str(), greeting.c_str());
  rpc::shutdown();  // returns when both workers have finished
}

}  // namespace hello

int main(int argc, char** argv) { rpc::launch<&hello::run_worker>(argc, argv, {.world_size = 2}, "nice to meet you"); }
