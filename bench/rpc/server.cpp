#include "bench/rpc/server.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "tendril/rpc/call/function.h"

namespace tendril::bench {

namespace {

rpc::AgentOptions agent_options(int rank, Transport transport, rpc::AgentOptions options) {
  options.encrypt = transport == Transport::tls;
  options.name = std::string(rank == 0 ? "client" : "server");
  options.rank = rank;
  return options;
}

void serve(Transport transport, int ready, int life, const std::function<void(rpc::Agent&)>& prepare,
           const rpc::AgentOptions& options) {
  rpc::Agent agent(options, rpc::served_functions());
  prepare(agent);
  const bool tcp = transport != Transport::unix_socket;
  const std::string where = agent.listen({.unix_socket = !tcp, .tcp = tcp}).to_string();
  if (write(ready, where.data(), where.size()) < 0) std::abort();
  char byte;
  while (read(life, &byte, 1) > 0) {
  }
  agent.shutdown();
}

}  // namespace

Server::Server(Transport transport, int client_cpu, int server_cpu, const std::function<void(rpc::Agent&)>& prepare,
               const rpc::AgentOptions& options) {
  int ready[2], life[2];
  if (pipe(ready) != 0 || pipe(life) != 0) std::abort();
  child_ = fork();
  if (child_ == 0) {
    close(life[1]);
    pin_to(server_cpu);
    serve(transport, ready[1], life[0], prepare, agent_options(1, transport, options));
    _exit(0);
  }
  close(life[0]);
  close(ready[1]);
  life_ = life[1];
  std::array<char, 512> text{};
  if (read(ready[0], text.data(), text.size() - 1) <= 0) std::abort();
  close(ready[0]);
  pin_to(client_cpu);
  agent_ = std::make_unique<rpc::Agent>(agent_options(0, transport, options), rpc::served_functions());
  prepare(*agent_);
  agent_->connect({std::string("server"), 1}, rpc::Agent::Endpoint::parse(text.data()),
                  rpc::Clock::now() + std::chrono::seconds(30));
}

void Server::stop() {
  kill(child_, SIGSTOP);
  waitpid(child_, nullptr, WUNTRACED);
}

void Server::go_on() { kill(child_, SIGCONT); }

Server::~Server() {
  agent_->shutdown();
  close(life_);
  waitpid(child_, nullptr, 0);
}

}  // namespace tendril::bench
