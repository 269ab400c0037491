#include "tendril/rpc/call/rref_state.h"

#include <ostream>

#include "tendril/rpc/device/transfer.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/threads/release.h"
#include "tendril/rpc/wire/type_name.h"

namespace tendril::rpc {

RRefState::RRefState(RRefId id, WorkerInfo self, std::weak_ptr<RRefHome> home, Executor* executor)
    : id_(id),
      owner_(std::move(self)),
      is_owner_(true),
      home_(std::move(home)),
      settled_(new FutureState<void>(executor)) {}

RRefState::RRefState(RRefId id, WorkerInfo owner, ForkId fork, std::weak_ptr<RRefHome> home, Executor* executor)
    : id_(id),
      owner_(std::move(owner)),
      fork_(fork),
      is_owner_(false),
      home_(std::move(home)),
      settled_(new FutureState<void>(executor)) {}

RRefState::~RRefState() {
  if (object_) detail::release(std::move(object_), settled_->executor());
  if (const char* const function = failed_creation_; function && !passed_on_ && settled_->done()) {
    if (const auto error = settled_->unread_error()) {
      detail::report_unread_error(settled_->executor(), function, error);
    }
  }
  if (is_owner_) return;
  if (const auto home = home_.lock()) home->user_dropped(fork_);
}

bool RRefState::set_value(std::shared_ptr<void> object, const std::type_info& type) {
  // Index errors that the call's kernels detect on a device must be thrown before the object becomes visible.
  const cuda::CallStamp call = detail::stamp_of(CallContext::current().origin);
  if (cuda::has_index_work(call)) detail::Staging(call).wait();
  {
    // Only one caller may write, and readers wait until settled_ is done.
    const std::lock_guard lock(mutex_);
    if (object_ || settled_->done()) return false;
    object_ = std::move(object);
    type_ = &type;
  }
  return settled_->try_set_value();
}

std::shared_ptr<void> RRefState::object(const std::type_info& wanted) const {
  if (!settled_->done()) throw RRefError("RRef: its object does not exist yet");
  settled_->rethrow_error();
  TENDRIL_CHECK_AS(RRefError, *type_ == wanted, *this, " refers to a ", type_name(*type_), ", not to a ",
                   type_name(wanted));
  return object_;
}

std::string RRefState::object_type() const {
  return settled_->done() && !settled_->error() && type_ != nullptr ? type_name(*type_) : "";
}

void RRefState::creation_failed(std::exception_ptr error, const char* function) {
  failed_creation_ = function;
  set_error(std::move(error));
}

void RRefState::fail(std::exception_ptr error) {
  if (settled_->try_set_error(error)) return;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(error);
}

std::exception_ptr RRefState::failure() const {
  if (settled_->done() && settled_->error()) return settled_->error();
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<RRefState> lend_for_creation(std::shared_ptr<RRefState> state) {
  struct Loan {
    ~Loan() {
      if (state->settled().done()) return;
      state->set_error(
          std::make_exception_ptr(RRefError("the call that should have created the object did not create it")));
    }
    std::shared_ptr<RRefState> state;
  };
  RRefState* const raw = state.get();
  auto loan = std::make_shared<Loan>();
  loan->state = std::move(state);
  return {std::move(loan), raw};
}

std::ostream& operator<<(std::ostream& out, const RRefState& state) {
  out << "RRef " << to_string(state.id()) << " of '" << state.owner().name << '\'';
  if (!state.is_owner()) out << " (fork " << to_string(state.fork()) << ')';
  return out;
}

std::string to_string(const GlobalId& id) {
  return std::to_string(id.worker) + '.' + std::to_string(id.number & kCounterMask);
}

}  // namespace tendril::rpc
