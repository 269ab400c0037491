#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// Who asks where its group meets.
struct Enquirer {
  WorkerInfo self;
  int world_size = 0;
  SharedKey key;            ///< rank 0 has the same; none: this user's
  TlsCredentials tls = {};  ///< in place of the key
};

/// What rank 0's agent has answered.
struct Found {
  std::string group;  ///< the id that all workers share
  WorkerInfo rank_0;
  Agent::Endpoint endpoint;                                ///< where rank 0 accepts sessions, as it says itself
  boost::asio::ip::address local_address, rank_0_address;  ///< the two ends of the connection
};

/// Asks rank 0, which listens there, whether this worker may join: again until it listens, or until the group that is
/// there already has gone. Throws TimeoutError (by the deadline), AuthenticationError (rank 0 has another key, or a
/// certificate of another authority), and, where rank 0 refuses this worker, what it says: UsageError, or what its
/// group has failed with. A wait of more than 5 s says on the error output what for. `timeout` is what that was at the
/// start. Blocks.
Found find_group(const boost::asio::ip::tcp::endpoint& address, const Enquirer& enquirer, Clock::time_point deadline,
                 std::chrono::milliseconds timeout);

/// Tells rank 0 that this worker, which has found its group, cannot go on: it ends the group for all. Does not throw;
/// tries for 2 s.
void tell_that_it_cannot_join(const boost::asio::ip::tcp::endpoint& address, const Enquirer& enquirer,
                              const std::string& why) noexcept;

}  // namespace tendril::rpc::detail
