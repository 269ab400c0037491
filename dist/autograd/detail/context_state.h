#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tendril/autograd/engine.h"
#include "tendril/dist/autograd/container.h"
#include "tendril/dist/autograd/gradients.h"
#include "tendril/dist/autograd/nodes.h"
#include "tendril/rpc/threads/mutex.h"

namespace tendril::dist::autograd::detail {

class Pass;

/// What one worker knows of one context: its send nodes, the workers it has called in it, the gradients of its leaves,
/// and the pass that is running. Thread-safe.
class ContextState final : public tendril::autograd::GradientSink {
 public:
  ContextState(ContextId id, std::shared_ptr<Census> census);
  ~ContextState() override;

  ContextId id() const noexcept { return id_; }
  const std::shared_ptr<Census>& census() const noexcept { return census_; }

  // ---- recording
  void add_known(rpc::WorkerId worker);  ///< it has been sent a call in this context
  std::vector<rpc::WorkerId> known() const;
  /// Throws AutogradError while a pass is running.
  void add_send(Ref<SendNode> node);

  // ---- gradients
  void accumulate(const tendril::autograd::Edge& target, Tensor gradient) override;
  Gradients gradients() const;
  void scale_gradients(const std::vector<Tensor>& leaves, double factor);
  /// As Container's. False: there is one.
  bool take_gradients(Container::Taker taker);
  void stop_taking() noexcept;
  void set_gradients(const std::vector<Gradients::Entry>& entries);

  // ---- passes
  std::vector<Ref<SendNode>> sends() const;
  Ref<SendNode> send(MessageId message) const;  ///< null if there is none
  std::shared_ptr<Pass> pass() const;
  /// Makes `pass` the running one. False: there is one, or the context was released.
  bool begin_pass(const std::shared_ptr<Pass>& pass);
  /// The running one is over; `finished` unless it failed: all its send nodes have had their gradients.
  void end_pass(Pass& pass, bool finished, uint64_t reports_made);
  enum class Past { unknown, finished, failed };
  Past past(PassId pass) const;
  void note_failed(PassId pass);  ///< also one that was never heard of here
  uint64_t reports_made() const;

  /// Of the root: a pass had to mark, so the next will do so at once.
  bool was_stuck() const;
  void set_stuck();

  /// Whatever it holds goes, outside all locks; the workers that it has called.
  std::vector<rpc::WorkerId> release();

 private:
  const ContextId id_;
  const std::shared_ptr<Census> census_;

  mutable rpc::detail::Mutex mutex_;
  bool released_ = false;
  bool was_stuck_ = false;
  std::vector<rpc::WorkerId> known_;
  std::unordered_map<MessageId, Ref<SendNode>> sends_;
  std::shared_ptr<Pass> pass_;
  PassId finished_ = 0;         // the last that did not fail
  std::vector<PassId> failed_;  // the last few that did: late messages of theirs are refused
  uint64_t reports_made_ = 0;

  mutable rpc::detail::Mutex gradients_mutex_;
  Gradients gradients_;
  Container::Taker taker_;
};

}  // namespace tendril::dist::autograd::detail
