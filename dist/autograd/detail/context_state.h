#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tendril/autograd/engine.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/detail/messages.h"
#include "tendril/dist/autograd/detail/transmitter.h"
#include "tendril/dist/autograd/gradients.h"
#include "tendril/dist/autograd/nodes.h"
#include "tendril/rpc/system/mutex.h"

namespace tendril::dist::autograd::detail {

class Pass;

/// One worker's state of one context: its send nodes, the workers that it has called in the context, the gradients of
/// its leaves, and the running pass. Thread-safe.
class ContextState final : public tendril::autograd::GradientSink, public std::enable_shared_from_this<ContextState> {
 public:
  ContextState(ContextId id, std::shared_ptr<Census> census);
  ~ContextState() override;

  ContextId id() const noexcept { return id_; }
  const std::shared_ptr<Census>& census() const noexcept { return census_; }

  // ---- recording
  void add_known(rpc::WorkerId worker);  ///< called when a call in this context is sent to the worker
  std::vector<rpc::WorkerId> known() const;
  /// Throws AutogradError while a pass is running.
  void add_send(Ref<SendNode> node);

  // ---- gradients
  void accumulate(const tendril::autograd::Edge& target, Tensor gradient) override;
  Gradients gradients() const;
  void scale_gradients(const std::vector<Tensor>& leaves, double factor);
  /// Installs the interceptor, as in Container. Returns false if the context already has one.
  bool intercept_gradients(Container::GradientInterceptor interceptor);
  void stop_intercepting() noexcept;
  void set_gradients(const std::vector<Gradients::Entry>& entries);

  // ---- passes
  std::vector<Ref<SendNode>> sends() const;
  Ref<SendNode> send(MessageId message) const;  ///< null if it is unknown
  std::shared_ptr<Pass> pass() const;
  /// Returns the running pass, which may be another, or begins this one. Throws AutogradError if this pass has failed
  /// here before, or the context was released.
  std::shared_ptr<Pass> find_or_begin_pass(const PassHeader& header, rpc::Clock::time_point deadline,
                                           const std::shared_ptr<Transmitter>& transmitter);
  /// Begins a pass at its root. Returns null if another pass is running or the context was released.
  std::shared_ptr<Pass> begin_pass(const PassHeader& header, rpc::Clock::time_point deadline,
                                   const std::shared_ptr<Transmitter>& transmitter);
  /// Ends the running pass. `finished`: it did not fail, so all its send nodes have had their gradients.
  void end_pass(Pass& pass, bool finished, uint64_t reports_made);
  void note_failed(PassId pass);  ///< also a pass that never ran here

  /// Root only: a pass had to mark, so later ones begin with marking.
  void set_stuck();

  /// Frees the contents, outside all locks, and returns the workers that were called in this context.
  std::vector<rpc::WorkerId> release();

 private:
  std::shared_ptr<Pass> begin_locked(const PassHeader& header, bool mark_first, rpc::Clock::time_point deadline,
                                     const std::shared_ptr<Transmitter>& transmitter);

  const ContextId id_;
  const std::shared_ptr<Census> census_;

  mutable rpc::detail::Mutex mutex_;
  bool released_ = false;
  bool was_stuck_ = false;
  std::vector<rpc::WorkerId> known_;
  std::unordered_map<MessageId, Ref<SendNode>> sends_;
  std::shared_ptr<Pass> pass_;
  PassId finished_ = 0;         // the last pass that did not fail
  std::vector<PassId> failed_;  // the last few failed passes, whose late messages are refused
  uint64_t reports_made_ = 0;

  mutable rpc::detail::Mutex gradients_mutex_;
  Gradients gradients_;
  Container::GradientInterceptor interceptor_;
};

}  // namespace tendril::dist::autograd::detail
