#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "tendril/dist/autograd/backward.h"
#include "tendril/dist/autograd/gradients.h"
#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/agent.h"
#include "tendril/rpc/message_hook.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/tensor/export.h"

namespace tendril::dist::autograd::detail {  // hidden
class ContextState;
class Transmitter;
}  // namespace tendril::dist::autograd::detail

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

namespace detail {
struct Census;
}

struct RecordedGraph;
struct RecordedPart;

/// What one worker holds; all zero when no context is left.
struct Counters {
  int64_t contexts = 0;
  int64_t send_nodes = 0, recv_nodes = 0;
  int64_t passes = 0;  ///< backwards that this worker takes part in right now
  bool none() const noexcept { return contexts == 0 && send_nodes == 0 && recv_nodes == 0 && passes == 0; }
};

/// One agent's contexts: records sends and receives as the agent's message hook, and takes part in backwards. The
/// functions of context.h and backward.h are a façade over the default agent's. Thread-safe.
class Container final : public rpc::MessageHook, public std::enable_shared_from_this<Container> {
 public:
  /// Gives the agent its contexts, before its first call. Agents of init_rpc get theirs from `enable`.
  static std::shared_ptr<Container> attach(rpc::Agent& agent);
  /// Throws rpc::UsageError if `attach` was not called.
  static std::shared_ptr<Container> of(const rpc::Agent& agent);
  /// Of the agent whose pool thread this is, else of the default agent. Throws rpc::UsageError if there is none.
  static std::shared_ptr<Container> current();

  explicit Container(rpc::Agent& agent);  ///< use `attach`
  ~Container() override;

  ContextId make_context();
  /// On every worker that the context has reached. Nothing happens if it is unknown or released.
  void release(ContextId id);
  void backward(ContextId id, const std::vector<Tensor>& roots, const BackwardOptions& options);
  /// A backward of this worker alone: from `output` with this gradient to leaves, whose gradients the context gets, but
  /// for `input` (a leaf, or undefined), whose gradient is returned.
  Tensor backward_here(ContextId id, const Tensor& output, const Tensor& gradient, const Tensor& input);
  /// Is shown each gradient of a leaf of this worker before the context gets it, with what the context holds already;
  /// true: it keeps it. Runs with the context's gradients locked.
  using Taker =
      std::function<bool(const Ref<tendril::autograd::Node>& leaf, const Tensor& gradient, const Gradients& held)>;
  /// ... from now on; not any more once the result is gone. Throws AutogradError if the context is unknown here or has
  /// one.
  [[nodiscard]] std::shared_ptr<void> take_gradients(ContextId id, Taker taker);
  /// The context's gradients of these leaves become these.
  void set_gradients(ContextId id, const std::vector<Gradients::Entry>& entries);
  /// What graph.h's functions do.
  RecordedGraph graph(ContextId id, const std::vector<Tensor>& roots, std::chrono::milliseconds timeout) const;
  RecordedPart recorded(ContextId id, const std::vector<Tensor>& roots) const;
  Gradients gradients(ContextId id) const;
  bool contains(ContextId id) const;
  Counters counters() const;
  /// Multiplies the gradients that the context holds of these leaves here, where it holds any; results of `gradients`
  /// that others have stay as they are.
  void scale_gradients(ContextId id, const std::vector<Tensor>& leaves, double factor);
  const std::shared_ptr<detail::Census>& census() const noexcept { return census_; }  ///< for the library's own parts
  const rpc::WorkerInfo& self() const noexcept;

  // MessageHook
  void before_send(const rpc::WorkerInfo& to, rpc::Message& request) override;
  void after_receive(const rpc::WorkerInfo& from, rpc::Message& request) override;
  void before_reply(const rpc::WorkerInfo& to, rpc::Message& reply) override;
  void after_reply(const rpc::WorkerInfo& from, rpc::Message& reply) override;
  void peer_lost(const rpc::WorkerInfo& peer, const std::exception_ptr& reason) noexcept override;
  void peer_returned(const rpc::WorkerInfo& peer) noexcept override;
  void agent_closing() noexcept override;

 private:
  friend struct Handlers;
  struct Released {
    uint64_t floor = 0;  // every count up to this, unless its context is here
    std::set<uint64_t> counts;
    uint64_t lost_after = 0, lost_to = 0;  // of these: not released by their maker, whom this worker has lost
  };

  std::shared_ptr<detail::ContextState> find(ContextId id) const;
  std::shared_ptr<detail::ContextState> find_or_make(ContextId id);
  std::shared_ptr<detail::ContextState> require(ContextId id, const char* what) const;
  bool is_released_locked(ContextId id) const;
  bool is_lost(ContextId id) const;
  bool is_earlier(ContextId id) const noexcept;
  bool cannot_record(ContextId id) const { return is_earlier(id) || is_lost(id); }
  [[noreturn]] void refuse_to_record(ContextId id) const;
  /// Called when all have heard; `incomplete`: all but some that could not be reached.
  using Heard = std::function<void(bool incomplete)>;
  /// Releases it here and with those that this worker called in it, but for `except`.
  void release_here(ContextId id, uint64_t oldest_alive, rpc::WorkerId except, Heard done);
  void send_releases(const std::vector<rpc::WorkerId>& to, ContextId id, uint64_t oldest_alive, Heard done);
  /// Sends the release until it is answered or the peer is gone.
  void send_release(rpc::WorkerId to, ContextId id, uint64_t oldest_alive, int attempt, Heard done);
  void record_send(const rpc::WorkerInfo& to, rpc::Message& message, detail::ContextState& context);
  void record_receive(const rpc::WorkerInfo& from, rpc::Message& message, detail::ContextState& context);

  const std::shared_ptr<detail::Census> census_;
  const std::shared_ptr<detail::Transmitter> transmitter_;
  const int world_size_;
  std::atomic<uint64_t> next_message_, next_pass_;

  mutable rpc::detail::Mutex mutex_;
  uint64_t last_count_ = 0;
  std::set<uint64_t> own_;  // counts of the contexts made here that are alive
  std::unordered_map<ContextId, std::shared_ptr<detail::ContextState>> contexts_;
  std::map<uint64_t, Released> released_;  // by series
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
