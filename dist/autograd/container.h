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
#include "tendril/rpc/system/mutex.h"
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

/// Numbers of objects that one worker holds. All are zero once every context is released and no received tensor of one
/// is left.
struct Counters {
  int64_t contexts = 0;
  int64_t send_nodes = 0, recv_nodes = 0;
  int64_t passes = 0;  ///< running backwards in which this worker takes part
  bool none() const noexcept { return contexts == 0 && send_nodes == 0 && recv_nodes == 0 && passes == 0; }
};

/// The contexts of one agent. Records sends and receives as the agent's message hook, and takes part in backwards. The
/// functions of context.h and backward.h are a façade over containers. Thread-safe.
class Container final : public rpc::MessageHook, public std::enable_shared_from_this<Container> {
 public:
  /// Attaches a container to the agent. Call it before the agent's first call. `enable` does this for the agents of
  /// init_rpc. Throws rpc::UsageError if the group has more than 32768 workers.
  static std::shared_ptr<Container> attach(rpc::Agent& agent);
  /// Returns the agent's container. Throws rpc::UsageError if `attach` was not called.
  static std::shared_ptr<Container> of(const rpc::Agent& agent);
  /// Returns the container of the agent whose pool runs this thread, otherwise the default agent's. Throws
  /// rpc::UsageError if there is no default agent or it has no container.
  static std::shared_ptr<Container> current();

  explicit Container(rpc::Agent& agent);  ///< use `attach`
  ~Container() override;

  ContextId make_context();
  /// Releases a context of this worker on every worker that it has reached. No effect if the context is unknown,
  /// released, or made by another worker.
  void release(ContextId id);
  void backward(ContextId id, const std::vector<Tensor>& roots, const BackwardOptions& options);
  /// Runs a backward on this worker only, from `output` with this gradient. Adds the gradients of the leaves to the
  /// context, except that of `input` (a leaf, or undefined), which is returned.
  Tensor backward_here(ContextId id, const Tensor& output, const Tensor& gradient, const Tensor& input);
  /// Called with each gradient of a leaf of this worker before it is added to the context's gradients, which are
  /// `held`. Returns true if the gradient must not be added. Runs with the context's gradients locked.
  using GradientInterceptor =
      std::function<bool(const Ref<tendril::autograd::Node>& leaf, const Tensor& gradient, const Gradients& held)>;
  /// Installs `interceptor` until the result is destroyed. Throws AutogradError if the context is unknown here or
  /// already has one.
  [[nodiscard]] std::shared_ptr<void> intercept_gradients(ContextId id, GradientInterceptor interceptor);
  /// Replaces the context's gradients of these leaves. Throws AutogradError if the context is unknown here.
  void set_gradients(ContextId id, const std::vector<Gradients::Entry>& entries);
  /// Implements `graph` of graph.h.
  RecordedGraph graph(ContextId id, const std::vector<Tensor>& roots, std::chrono::milliseconds timeout) const;
  /// Returns this worker's part of the graph, without nodes if the context is unknown here.
  RecordedPart recorded(ContextId id, const std::vector<Tensor>& roots) const;
  Gradients gradients(ContextId id) const;
  bool contains(ContextId id) const;
  Counters counters() const;
  /// Multiplies the context's gradients of these leaves on this worker. Leaves without a gradient are skipped. Results
  /// of earlier calls of `gradients` do not change. No effect if the context is unknown here.
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
    uint64_t floor = 0;  // every context up to this count is released, unless it is in `contexts_`
    std::set<uint64_t> counts;
    // The contexts in (lost_after, lost_to] were released because this worker lost their maker.
    uint64_t lost_after = 0, lost_to = 0;
  };

  std::shared_ptr<detail::ContextState> find(ContextId id) const;
  std::shared_ptr<detail::ContextState> find_or_make(ContextId id);
  std::shared_ptr<detail::ContextState> require(ContextId id, const char* what) const;
  bool is_released_locked(ContextId id) const;
  bool is_lost(ContextId id) const;
  bool is_earlier(ContextId id) const noexcept;
  bool cannot_record(ContextId id) const { return is_earlier(id) || is_lost(id); }
  [[noreturn]] void refuse_to_record(ContextId id) const;
  /// Called when all workers have acknowledged; `incomplete`: some could not be reached.
  using Heard = std::function<void(bool incomplete)>;
  /// Releases the context here and on the workers that this one called in it, except `except`.
  void release_here(ContextId id, uint64_t oldest_alive, rpc::WorkerId except, Heard done);
  void send_releases(const std::vector<rpc::WorkerId>& to, ContextId id, uint64_t oldest_alive, Heard done);
  /// Repeats the release until it is answered or the peer is lost.
  void send_release(rpc::WorkerId to, ContextId id, uint64_t oldest_alive, int attempt, Heard done);
  void record_send(const rpc::WorkerInfo& to, rpc::Message& message, detail::ContextState& context);
  void record_receive(const rpc::WorkerInfo& from, rpc::Message& message, detail::ContextState& context);

  const std::shared_ptr<detail::Census> census_;
  const std::shared_ptr<detail::Transmitter> transmitter_;
  const int world_size_;
  std::atomic<uint64_t> next_message_, next_pass_;

  mutable rpc::detail::Mutex mutex_;
  uint64_t last_count_ = 0;
  std::set<uint64_t> own_;  // counts of the living contexts that this worker made
  std::unordered_map<ContextId, std::shared_ptr<detail::ContextState>> contexts_;
  std::map<uint64_t, Released> released_;  // by series
};

}  // namespace tendril::dist::autograd

TENDRIL_API_END
