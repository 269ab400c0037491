#include "tendril/rpc/session/handshake.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <random>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

Hello hello_of(const Agent::Impl& agent, const WorkerInfo& peer) {
  std::random_device device;
  Hello hello;
  hello.worker = agent.self;
  hello.world_size = agent.options.world_size;
  hello.group = agent.options.group;
  hello.incarnation = agent.incarnation;
  hello.nonce = uint64_t{device()} << 32 | device();
  hello.limits = agent.options.limits;
  hello.request_window = agent.options.receive_limit;
  hello.devices = agent.devices_for(peer.name);
  return hello;
}

void adopt_socket(Agent::Impl& agent, UniqueFd socket, bool tcp, const Hello& theirs) {
  auto link = std::make_shared<SocketLink>(agent.loop, socket.release(),
                                           SocketLinkOptions{.transport = tcp ? "tcp" : "unix",
                                                             .send_limits = theirs.limits,
                                                             .receive_limits = agent.options.limits,
                                                             .send_window = theirs.request_window,
                                                             .receive_window = agent.options.receive_limit,
                                                             .max_queued_bytes = agent.options.send_limit,
                                                             .stall_timeout = agent.options.liveness_timeout});
  agent.add_peer(theirs.worker, theirs.incarnation, std::move(link), theirs.devices);
}

Handshake::Handshake(std::shared_ptr<Agent::Impl> agent, UniqueFd socket, bool tcp, std::function<void()> ended)
    : agent_(std::move(agent)),
      stream_(agent_->loop->io(), socket.release()),
      timer_(agent_->loop->io()),
      tcp_(tcp),
      ended_(std::move(ended)),
      received_(kHelloPrefixBytes) {
  stream_.native_non_blocking(true);
}

Handshake::~Handshake() { ended_(); }

void Handshake::start() {
  timer_.expires_after(kHandshakeTimeout);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->close();
  });
  read();
}

void Handshake::close() {
  timer_.cancel();
  if (stream_.is_open()) stream_.close();
}

void Handshake::read() {
  stream_.async_read_some(boost::asio::buffer(received_.data() + count_, received_.size() - count_),
                          [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
                            if (error) return self->close();
                            self->count_ += bytes;
                            try {
                              if (self->count_ < self->received_.size()) return self->read();
                              const std::optional<std::size_t> size = hello_size(self->received_);
                              if (size && *size > self->received_.size()) {
                                self->received_.resize(*size);
                                return self->read();
                              }
                              if (!self->answer()) self->close();
                            } catch (const std::exception& e) {
                              self->refuse(e.what());
                            }
                          });
}

/// False: the connection is of no use.
bool Handshake::answer() {
  const Hello theirs = decode_hello(received_);
  const Hello mine = hello_of(*agent_, theirs.worker);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = std::nullopt}, theirs);
  if (agent_->session(theirs.worker.id)) {
    throw UsageError("rank " + std::to_string(theirs.worker.id) + " is connected to worker '" + mine.worker.name +
                     "' already");
  }
  if (!say(mine)) return false;
  timer_.cancel();
  adopt_socket(*agent_, UniqueFd(stream_.release()), tcp_, theirs);
  return true;
}

void Handshake::refuse(const std::string& why) {
  if (stream_.is_open()) {
    Hello refusal = hello_of(*agent_, {});
    refusal.refusal = why.substr(0, 1024);
    say(refusal);
  }
  close();
}

bool Handshake::say(const Hello& hello) {
  const Bytes bytes = encode(hello);  // an empty socket buffer takes it whole
  return ::send(stream_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace tendril::rpc::detail
