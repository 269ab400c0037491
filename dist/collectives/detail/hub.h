#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/rpc/agent.h"
#include "tendril/rpc/message_hook.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::detail {

/// The channels of an agent, by key. It is a message hook only to be notified of lost peers and of the agent's end, and
/// ignores messages. Thread-safe.
class CollectiveHub final : public rpc::MessageHook {
 public:
  /// Attaches a hub to the agent.
  static std::shared_ptr<CollectiveHub> attach(rpc::Agent& agent);
  /// Returns the agent's hub. Throws rpc::UsageError if `attach` was not called.
  static std::shared_ptr<CollectiveHub> of(const rpc::Agent& agent);

  explicit CollectiveHub(rpc::Agent& agent);

  const std::shared_ptr<Transmitter>& transmitter() const noexcept { return transmitter_; }
  /// Adds a channel, and passes it the join requests that arrived before it was added. Throws rpc::UsageError if a
  /// channel with this key exists.
  void add(const std::shared_ptr<Channel>& channel);
  void remove(const Channel& channel) noexcept;
  std::shared_ptr<Channel> find(uint64_t key) const;
  /// Returns the failure of the last channel with this key that was removed; late messages are answered with it.
  Failure last_failure(uint64_t key) const;
  /// Passes another member's join request to the channel with this key, or keeps it until that channel is added.
  void join(uint64_t key, rpc::InboundCall call);

  // MessageHook
  void before_send(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_receive(const rpc::WorkerInfo&, rpc::Message&) override {}
  void before_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
  void after_reply(const rpc::WorkerInfo&, rpc::Message&) override {}
  void peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason) noexcept override;
  void agent_closing() noexcept override;

 private:
  std::vector<std::shared_ptr<Channel>> channels() const;
  void drop_stale(std::vector<rpc::InboundCall>& stale);

  const std::shared_ptr<Transmitter> transmitter_;
  mutable rpc::detail::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Channel>> channels_;
  std::multimap<uint64_t, rpc::InboundCall> early_;  // join requests without a channel, by key
  std::map<uint64_t, Failure> ended_;
};

}  // namespace tendril::dist::detail
