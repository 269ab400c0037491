#include "tendril/dist/collectives/detail/messages.h"

#include <memory>

#include "tendril/dist/collectives/detail/hub.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/archive.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/error.h"

namespace tendril::dist::detail {

void Failure::raise() const {
  switch (kind) {
    case lost:
      throw rpc::PeerLostError(text, true);
    case timeout:
      throw rpc::TimeoutError(text);
    default:
      throw CollectiveError(text);
  }
}

Failure Failure::of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const rpc::PeerLostError& e) {
    return {lost, e.what()};
  } catch (const rpc::TimeoutError& e) {
    return {timeout, e.what()};
  } catch (const std::exception& e) {
    return {other, e.what()};
  }
}

// ---- The requests, as functions that agents serve. A type's name determines the request's id.

struct CollectiveJoin {
  static void invoke(rpc::InboundCall& call) {
    const auto group = read_request<GroupName>(call.request());
    const auto hub = CollectiveHub::of(call.agent());
    hub->join(group.key, std::move(call));
  }
};

struct CollectivePart {
  static void invoke(rpc::InboundCall& call) {
    auto part = read_request<PartMessage>(call.request());
    const auto hub = CollectiveHub::of(call.agent());
    if (const auto channel = hub->find(part.group.key)) {
      channel->deliver(std::move(call), std::move(part));
    } else {
      call.reply(write_answer(hub->last_failure(part.group.key)));
    }
  }
};

struct CollectiveFailure {
  static void invoke(rpc::InboundCall& call) {
    auto message = read_request<FailureMessage>(call.request());
    if (!message.failure)
      message.failure = {Failure::other, "worker '" + call.from().name + "' failed the group without a reason"};
    if (const auto channel = CollectiveHub::of(call.agent())->find(message.group.key)) {
      channel->told(call.from(), message);
    }
    call.reply({});
  }
};

struct CollectiveWhereabouts {
  static void invoke(rpc::InboundCall& call) {
    const auto group = read_request<GroupName>(call.request());
    const auto hub = CollectiveHub::of(call.agent());
    const auto channel = hub->find(group.key);
    WhereaboutsMessage here;
    if (channel) {
      here = channel->whereabouts();
    } else if (Failure last = hub->last_failure(group.key); last.kind == Failure::timeout) {
      here.what = std::move(last.text);  // it stopped joining a moment ago
    }
    rpc::Message reply;
    rpc::OutputArchive archive(reply);
    archive << here;
    call.reply(std::move(reply));
  }
};

namespace {

template <class Request>
const rpc::detail::FunctionEntry& entry() {
  static rpc::detail::FunctionEntry* const instance = [] {
    auto* made = new rpc::detail::FunctionEntry(typeid(Request), typeid(void()), &Request::invoke);
    made->served.on_reader = true;  // they only update tables and wake threads
    return made;
  }();
  return *instance;
}

rpc::FunctionId function_of(CollectiveRequest kind) {
  switch (kind) {
    case CollectiveRequest::join:
      return entry<CollectiveJoin>().id;
    case CollectiveRequest::part:
      return entry<CollectivePart>().id;
    case CollectiveRequest::failure:
      return entry<CollectiveFailure>().id;
    case CollectiveRequest::whereabouts:
      return entry<CollectiveWhereabouts>().id;
  }
  return 0;
}

}  // namespace

std::string called(CollectiveRequest kind) { return "call of " + rpc::name_of_function(function_of(kind)); }

void serve_collective_requests() {
  rpc::detail::register_function(entry<CollectiveJoin>());
  rpc::detail::register_function(entry<CollectivePart>());
  rpc::detail::register_function(entry<CollectiveFailure>());
  rpc::detail::register_function(entry<CollectiveWhereabouts>());
}

template <class T>
rpc::Message write_request(CollectiveRequest kind, const T& content) {
  rpc::Message message;
  message.function = function_of(kind);
  rpc::OutputArchive archive(message);
  archive << content;
  return message;
}
template rpc::Message write_request(CollectiveRequest, const GroupName&);
template rpc::Message write_request(CollectiveRequest, const PartMessage&);
template rpc::Message write_request(CollectiveRequest, const FailureMessage&);

template <class T>
T read_request(rpc::Message& request) {
  T content;
  rpc::InputArchive archive(request, "a process group's message");
  archive >> content;
  archive.finish();
  return content;
}
template WhereaboutsMessage read_request(rpc::Message&);

rpc::Message write_answer(const Failure& failure, uint64_t generation) {
  rpc::Message message;
  rpc::OutputArchive archive(message);
  archive << failure << generation;
  return message;
}

Failure read_answer(rpc::Message& reply, uint64_t* generation) {
  Failure failure;
  uint64_t number = 0;
  rpc::InputArchive archive(reply, "a process group's answer");
  archive >> failure >> number;
  archive.finish();
  if (generation != nullptr) *generation = number;
  return failure;
}

}  // namespace tendril::dist::detail
