#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <string>

#include "tendril/rpc/agent.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/tls_credentials.h"

namespace tendril::rpc::detail {

/// A worker that asks where its group meets.
struct Enquirer {
  WorkerInfo self;
  int world_size = 0;
  SharedKey key;            ///< the same as rank 0's; empty: this user's key
  TlsCredentials tls = {};  ///< in place of the key
};

/// The answer of rank 0's agent.
struct Found {
  std::string group;  ///< the id that all workers share
  WorkerInfo rank_0;
  Agent::Endpoint endpoint;                                ///< where rank 0 accepts sessions, as it advertises
  boost::asio::ip::address local_address, rank_0_address;  ///< the two ends of the connection
};

/// Asks rank 0 whether this worker may join. Retries until rank 0 listens at this address, or until an earlier group
/// there has ended. Throws TimeoutError at the deadline, AuthenticationError (rank 0 has another key, or a certificate
/// of another authority), and, if rank 0 refuses this worker, UsageError or the error with which the group failed.
/// Logs the reason of a wait of more than 5 s. `timeout` is the full timeout, for error texts. Blocks.
Found find_group(const boost::asio::ip::tcp::endpoint& address, const Enquirer& enquirer, Clock::time_point deadline,
                 std::chrono::milliseconds timeout);

/// Tells rank 0 that this worker, which has found its group, cannot join. This ends the group for all workers. Does not
/// throw; tries for 2 s.
void report_cannot_join(const boost::asio::ip::tcp::endpoint& address, const Enquirer& enquirer,
                        const std::string& why) noexcept;

}  // namespace tendril::rpc::detail
