#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/rpc/agent.h"
#include "tendril/rpc/message_hook.h"
#include "tendril/rpc/threads/mutex.h"

namespace tendril::dist::detail {

/// An agent's ends of process groups, by key; as the agent's message hook it hears of lost peers, and leaves messages
/// alone. Thread-safe.
class CollectiveHub final : public rpc::MessageHook {
 public:
  static std::shared_ptr<CollectiveHub> attach(rpc::Agent& agent);
  /// Throws rpc::UsageError if `attach` was not called.
  static std::shared_ptr<CollectiveHub> of(const rpc::Agent& agent);

  explicit CollectiveHub(rpc::Agent& agent);

  const std::shared_ptr<Transmitter>& transmitter() const noexcept { return transmitter_; }
  /// Throws rpc::UsageError if there is a channel of this key. Those who came too early have joined then.
  void add(const std::shared_ptr<Channel>& channel);
  void remove(const Channel& channel) noexcept;
  std::shared_ptr<Channel> find(uint64_t key) const;
  /// Why the last channel of this key, which is gone, was: what late messages are answered with.
  Failure last_failure(uint64_t key) const;
  /// Another member's: of the channel of this key, or kept until there is one.
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
  std::multimap<uint64_t, rpc::InboundCall> early_;  // by key
  std::map<uint64_t, Failure> ended_;
};

}  // namespace tendril::dist::detail
