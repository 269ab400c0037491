#pragma once

#include <atomic>
#include <exception>
#include <iosfwd>
#include <memory>
#include <typeinfo>

#include "tendril/rpc/future.h"
#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// Notified by a state when its last handle is destroyed. Implemented by RRefContext.
class RRefHome {
 public:
  virtual ~RRefHome() = default;
  virtual void user_dropped(const ForkId& fork) noexcept = 0;
};

/// State shared by all RRef<T> handles of one process to one reference: the owner's object, or a user's fork.
/// Thread-safe.
class RRefState : public std::enable_shared_from_this<RRefState> {
 public:
  /// Creates the owner's side; the object is set later.
  RRefState(RRefId id, WorkerInfo self, std::weak_ptr<RRefHome> home, Executor* executor);
  /// Creates a user's side. `fork` keeps the owner's object alive.
  RRefState(RRefId id, WorkerInfo owner, ForkId fork, std::weak_ptr<RRefHome> home, Executor* executor);
  ~RRefState();  ///< on a user's side, notifies the owner
  RRefState(const RRefState&) = delete;
  RRefState& operator=(const RRefState&) = delete;

  bool is_owner() const noexcept { return is_owner_; }
  const RRefId& id() const noexcept { return id_; }
  const WorkerInfo& owner() const noexcept { return owner_; }
  const ForkId& fork() const noexcept { return fork_; }  ///< only on a user's side
  const std::weak_ptr<RRefHome>& home() const noexcept { return home_; }

  /// On the owner: done when the object exists, or with the error of its creation. On a user: done when the owner has
  /// confirmed this fork, or with the error that makes the reference unusable.
  Future<void> settled() const { return Future<void>(settled_); }

  // ---- owner
  /// Settles the reference. Returns false if it was already settled.
  bool set_value(std::shared_ptr<void> object, const std::type_info& type);
  bool set_error(std::exception_ptr error) { return settled_->try_set_error(std::move(error)); }
  /// Sets the error on the worker that made the creating call. If the error is never read, it is reported as an error
  /// of `function`, a string that must never be destroyed.
  void creation_failed(std::exception_ptr error, const char* function);
  /// Called when a message that contains this reference, as a call's receiver, an argument or a result, is written. An
  /// error of the creation then reaches the receiver of the message, and is not reported as unread here. That holds
  /// even if the message cannot be sent; the sender gets that failure instead.
  void passed_on() noexcept { passed_on_.store(true, std::memory_order_relaxed); }
  /// Returns the object, once settled. Throws the stored error, or RRefError if the object's type is not exactly
  /// `wanted`.
  std::shared_ptr<void> object(const std::type_info& wanted) const;

  /// The name of the object's type, for people to read; empty until the object exists.
  std::string object_type() const;

  // ---- user
  void confirm() { settled_->try_set_value(); }
  /// Makes the reference unusable. Keeps the first error.
  void fail(std::exception_ptr error);

  /// Why the reference is unusable (the creation failed, the owner is lost, ...); null while it is usable.
  std::exception_ptr failure() const;

 private:
  RRefId id_;
  WorkerInfo owner_;
  ForkId fork_;
  bool is_owner_;
  std::weak_ptr<RRefHome> home_;
  Ref<FutureState<void>> settled_;
  mutable detail::Mutex mutex_;   // serializes writers, and guards failure_
  std::exception_ptr failure_;    // the error of a user that failed after it was confirmed
  std::shared_ptr<void> object_;  // written once, before settled_ is done
  const std::type_info* type_ = nullptr;
  std::atomic<const char*> failed_creation_{nullptr};
  std::atomic<bool> passed_on_{false};
};

/// Lends the owner's state to the call that creates the object. If the last copy of the returned pointer is destroyed
/// before the state is settled, the reference fails, so that no use waits for it forever.
std::shared_ptr<RRefState> lend_for_creation(std::shared_ptr<RRefState> state);

/// Prints "RRef 0.5 of 'ps'", and on a user's side also the fork.
std::ostream& operator<<(std::ostream& out, const RRefState& state);

namespace detail {

/// Returns the agent that the handle belongs to. Throws UsageError after its shutdown.
std::shared_ptr<Agent> agent_of(const RRefState& state);
/// Creates the state of an object that this agent's worker owns and that is set later. Throws UsageError if the agent
/// is not set up for references.
std::shared_ptr<RRefState> make_owner(Agent& agent);
/// Throws UsageError, naming both workers, if the object is not on this worker.
void check_owner(const RRefState& state);

}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
