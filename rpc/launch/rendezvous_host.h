#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tendril/rpc/launch/rendezvous.h"
#include "tendril/rpc/session/half_open.h"
#include "tendril/rpc/shared_key.h"

namespace tendril::rpc::detail {

/// Rank 0's rendezvous (rendezvous.h) behind a listening socket, on a thread of its own, as long as the group lives: it
/// tells late-comers that the group is complete, and notices workers that vanish. While it waits for workers it says on
/// the error output who is missing, after 5 s, 10 s, 20 s, ...
///
/// What connects is not trusted: it has 5 s and 4 KiB to prove the key (session/proof.h) and to join, and learns
/// nothing of the group before. What sends anything else is closed without disturbing others; the error output says so,
/// now and then.
class RendezvousHost {
 public:
  /// Listens. Throws UsageError if it cannot (a port in use).
  RendezvousHost(const boost::asio::ip::tcp::endpoint& address, int world_size, std::string group, SharedKey key);
  /// Goes on with a socket that listens already; duplicates the descriptor.
  RendezvousHost(int listener, int world_size, std::string group, SharedKey key);
  /// Sends what is left to send. If the group has failed and some ranks have not heard of it, waits up to 2 s for them.
  ~RendezvousHost();
  RendezvousHost(const RendezvousHost&) = delete;
  RendezvousHost& operator=(const RendezvousHost&) = delete;

  boost::asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }
  /// Ends the group: rank 0 itself cannot go on, because of `text`. Any thread.
  void fail(const std::string& text);

 private:
  struct Peer;

  void start();
  void accept();
  void accepted(boost::asio::ip::tcp::socket socket);
  void read_challenge(const std::shared_ptr<Peer>& peer);
  void read_prefix(const std::shared_ptr<Peer>& peer);
  void read_body(const std::shared_ptr<Peer>& peer, std::size_t size);
  void refuse(const std::shared_ptr<Peer>& peer, const std::string& why);
  void note_refused(const std::string& why);
  void say(const std::shared_ptr<Peer>& peer, Bytes bytes);
  void write(const std::shared_ptr<Peer>& peer);
  void drop(const std::shared_ptr<Peer>& peer);
  void act();
  void stop_when_done();
  void note_missing(std::chrono::seconds waited);

  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_{io_};
  boost::asio::steady_timer deadline_{io_}, linger_{io_}, note_{io_};
  const SharedKey key_;
  HalfOpen<Peer> strangers_;
  RefusalNotes notes_;
  RendezvousServer server_;
  std::map<RendezvousServer::Connection, std::shared_ptr<Peer>> peers_;
  RendezvousServer::Connection last_connection_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tendril::rpc::detail
