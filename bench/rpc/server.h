#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "bench/rpc/raw.h"
#include "tendril/rpc/agent.h"

namespace tendril::bench {

/// A worker "server" (rank 1) in a process of its own, and the agent "client" (rank 0) of this one, connected. Make it
/// while this process has a single thread: it forks.
class Server {
 public:
  /// CPUs as pin_to's. `prepare` is given each of the two agents before the first call, in its own process.
  /// `options`: of both agents, except their names and ranks; ranks from 2 up have no process.
  Server(
      Transport transport, int client_cpu, int server_cpu,
      const std::function<void(rpc::Agent&)>& prepare = [](rpc::Agent&) {},
      const rpc::AgentOptions& options = {.world_size = 2});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  rpc::Agent& agent() { return *agent_; }
  void stop();   ///< suspends the server's process (SIGSTOP)
  void go_on();  ///< resumes it (SIGCONT)

 private:
  pid_t child_ = -1;
  int life_ = -1;  // the server ends when this is closed, by whatever
  std::unique_ptr<rpc::Agent> agent_;
};

}  // namespace tendril::bench
