#include "tendril/rpc/reference/typed_call.h"

#include "tendril/rpc/reference/rref_context.h"
#include "tendril/rpc/rref.h"

namespace tendril::rpc::detail {

void write_receiver(OutputArchive& archive, Message& request, const std::shared_ptr<RRefState>& receiver) {
  receiver->passed_on();
  archive.reference(receiver);
  request.has_receiver = true;
}

std::shared_ptr<RRefState> take_created(Message& request) {
  const bool there = (request.flags & kCreatesReference) != 0 && !request.references.empty() &&
                     request.references.back() && request.references.back()->is_owner();
  TENDRIL_CHECK_AS(MessageError, there, "a call that creates an object has no reference for it");
  auto created = std::move(request.references.back());
  request.references.pop_back();
  return created;
}

void fail(CallToRun& in, std::exception_ptr error) {
  if (in.created) in.created->set_error(error);
  in.call.fail(std::move(error));
}

void run_when_receiver_ready(std::unique_ptr<CallToRun> in) {
  const Future<void> made = in->receiver->settled();
  if (made.done()) {
    CallToRun& call = *in;
    return call.run(std::move(in));
  }
  made.then([in = std::move(in)](Future<void>) mutable {
    Executor& executor = in->call.agent().executor();
    const int level = in->call.level();
    post(
        executor,
        [in = std::move(in)]() mutable {
          CallToRun& call = *in;
          call.run(std::move(in));
        },
        level);
  });
}

std::shared_ptr<RRefState> send_creation(Agent& agent, WorkerId to, const CallOptions& options, Message&& request,
                                         const char* function, const std::shared_ptr<RRefState>& receiver) {
  const auto context = RRefContext::of(agent);
  std::shared_ptr<RRefState> state;
  if (to == agent.self().id) {
    state = context->table().make_owner();
    request.references.push_back(lend_for_creation(state));
  } else {
    state = context->table().make_user(to);
    request.references.push_back(state);
  }
  Ref<CreationCall> call(new CreationCall(agent.executor(), state, function, receiver));
  try {
    agent.call(to, std::move(request), PendingCallRef(call), options);
  } catch (...) {
    call->fail(std::current_exception());
    (void)state->failure();  // marks the error as read, because the caller gets it
    throw;
  }
  return state;
}

void CreationCall::complete(Message&&) noexcept {
  receiver_.reset();
  if (!state_->is_owner()) state_->confirm();
  try_set_value();
}

void CreationCall::fail(std::exception_ptr error) noexcept {
  receiver_.reset();
  state_->creation_failed(error, function_);
  try_set_error(std::move(error));
}

}  // namespace tendril::rpc::detail
