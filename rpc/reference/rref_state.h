#pragma once

#include <atomic>
#include <exception>
#include <iosfwd>
#include <memory>
#include <typeinfo>

#include "tendril/rpc/future.h"
#include "tendril/rpc/threads/mutex.h"
#include "tendril/rpc/wire/ids.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

class Agent;

/// Whom a state tells that its last handle is gone: the worker's RRef tables.
class RRefHome {
 public:
  virtual ~RRefHome() = default;
  virtual void user_dropped(const ForkId& fork) noexcept = 0;
};

/// What all RRef<T> handles of one process to one reference share: the owner's object, or a user's fork.
/// Thread-safe.
class RRefState : public std::enable_shared_from_this<RRefState> {
 public:
  /// The owner's side; the object comes later.
  RRefState(RRefId id, WorkerInfo self, std::weak_ptr<RRefHome> home, Executor* executor);
  /// A user's side: `fork` is its hold on the owner's object.
  RRefState(RRefId id, WorkerInfo owner, ForkId fork, std::weak_ptr<RRefHome> home, Executor* executor);
  ~RRefState();  ///< tells the owner that this user is gone
  RRefState(const RRefState&) = delete;
  RRefState& operator=(const RRefState&) = delete;

  bool is_owner() const noexcept { return is_owner_; }
  const RRefId& id() const noexcept { return id_; }
  const WorkerInfo& owner() const noexcept { return owner_; }
  const ForkId& fork() const noexcept { return fork_; }  ///< of a user
  const std::weak_ptr<RRefHome>& home() const noexcept { return home_; }

  /// Of an owner: done when the object is there, or the error that came instead. Of a user: done when the owner has
  /// confirmed this fork, or with the error that makes the reference useless.
  Future<void> settled() const { return Future<void>(settled_); }

  // ---- owner
  /// Settles the reference; false if it was settled already.
  bool set_value(std::shared_ptr<void> object, const std::type_info& type);
  bool set_error(std::exception_ptr error) { return settled_->try_set_error(std::move(error)); }
  /// ... where the call that makes the object was made: if nobody reads the error, it is reported as `function`'s,
  /// which must live for ever.
  void creation_failed(std::exception_ptr error, const char* function);
  /// A message carries this reference, as a call's receiver, an argument or a result: whoever uses it then gets the
  /// creation's error, which is not reported as unread here. Told when the message is written: nobody reports the error
  /// of a creation whose reference was in a message that could then not be sent (the sender gets that failure instead).
  void passed_on() noexcept { passed_on_.store(true, std::memory_order_relaxed); }
  /// The object, once settled. Throws the stored error, and RRefError if the object is not exactly a `wanted`.
  std::shared_ptr<void> object(const std::type_info& wanted) const;

  /// The object's type, for people to read; empty until it is there.
  std::string object_type() const;

  // ---- user
  void confirm() { settled_->try_set_value(); }
  /// The reference is of no use any more. The first error stays.
  void fail(std::exception_ptr error);

  /// Why the reference is of no use (the creation failed, the owner is lost, ...); null while it is.
  std::exception_ptr failure() const;

 private:
  RRefId id_;
  WorkerInfo owner_;
  ForkId fork_;
  bool is_owner_;
  std::weak_ptr<RRefHome> home_;
  Ref<FutureState<void>> settled_;
  mutable detail::Mutex mutex_;   // between writers; failure_
  std::exception_ptr failure_;    // of a user that had been confirmed
  std::shared_ptr<void> object_;  // written once, before settled_ is done
  const std::type_info* type_ = nullptr;
  std::atomic<const char*> failed_creation_{nullptr};
  std::atomic<bool> passed_on_{false};
};

/// The owner's state on loan to the call that makes the object: if the last copy of the loan goes away and nothing was
/// set, the reference fails instead of being waited for in vain.
std::shared_ptr<RRefState> lend_for_creation(std::shared_ptr<RRefState> state);

/// "RRef 0.5 of 'ps'", with the fork if it is a user's.
std::ostream& operator<<(std::ostream& out, const RRefState& state);

namespace detail {

/// Whose handle it is. Throws UsageError after its shutdown.
std::shared_ptr<Agent> agent_of(const RRefState& state);
/// A reference to an object that is to come, which this agent's worker owns. Throws UsageError for an agent without
/// references.
std::shared_ptr<RRefState> make_owner(Agent& agent);
/// Throws UsageError naming both workers if the object is not here.
void check_owner(const RRefState& state);

}  // namespace detail
}  // namespace tendril::rpc

TENDRIL_API_END
