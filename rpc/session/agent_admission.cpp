#include "tendril/rpc/session/agent_admission.h"

#include <optional>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/connector.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/session/introduction.h"
#include "tendril/rpc/transport/socket_link.h"

namespace tendril::rpc::detail {

std::shared_ptr<const TlsContext> AgentAdmission::security() { return agent_.security(); }
Hello AgentAdmission::introduction(const WorkerInfo& to) { return hello_of(agent_, to); }
bool AgentAdmission::is_closed() const { return agent_.is_shut_down(); }

void AgentAdmission::refused(const std::string& why) {
  if (const auto events = agent_.group_events()) events->refused(why);
}

void AgentAdmission::introduced(Handshake& handshake, const Hello& theirs) {
  if (theirs.enquiry) return answer_enquiry(handshake, theirs);
  const Hello mine = hello_of(agent_, theirs.worker);
  check_hello(mine, {.group = mine.group, .world_size = mine.world_size, .worker = std::nullopt}, theirs);
  if (theirs.resumption.peer_incarnation != 0) return continue_session(handshake, mine, theirs);
  if (const auto events = agent_.group_events(); events && refused_by_group(handshake, *events, theirs)) return;
  begin_session(handshake, mine, theirs);
}

void AgentAdmission::begin_session(Handshake& handshake, const Hello& mine, const Hello& theirs) {
  if (const auto session = agent_.session(theirs.worker.id)) {
    if (session->incarnation() == theirs.incarnation || session->link()->gauges().connected) {
      throw UsageError("rank " + std::to_string(theirs.worker.id) + " is already connected to worker '" +
                       mine.worker.name + "'");
    }
    if (session->peer() != theirs.worker)  // only the worker itself may end its session
      return handshake.refuse("rank " + std::to_string(theirs.worker.id) + " is worker '" + session->peer().name +
                                  "', whose session has not ended",
                              RefusalKind::try_later);
    session->end(std::make_exception_ptr(PeerLostError(name_of(session->peer()) + " was restarted", true)));
  }
  if (!handshake.say(mine)) return;
  Reach reach;
  try {
    if (!theirs.resumption.endpoint.empty()) reach.endpoint = Agent::Endpoint::parse(theirs.resumption.endpoint);
  } catch (const UsageError&) {  // then this worker cannot check whether the peer is alive
  }
  adopt_connection(agent_, handshake.release(mine.plain && theirs.plain), mine, theirs, std::move(reach), false);
}

/// Answers a worker that asks whether it may join the group.
void AgentAdmission::answer_enquiry(Handshake& handshake, const Hello& theirs) {
  const Hello mine = hello_of(agent_, theirs.worker);
  agree_on_version(mine, theirs);
  const auto events = agent_.group_events();
  if (!events) throw UsageError("this worker does not host a group");
  if (!refused_by_group(handshake, *events, theirs)) handshake.say(mine);
}

/// Continues a session that has lost its connection, or has not had one yet, over this connection. If the connection
/// is not used, the other side finds the session connected or dials again.
void AgentAdmission::continue_session(Handshake& handshake, const Hello& first, const Hello& theirs) {
  const auto session = agent_.session(theirs.worker.id);
  if (session && session->incarnation() == theirs.incarnation && session->peer() != theirs.worker) {
    throw UsageError("rank " + std::to_string(theirs.worker.id) + " is worker '" + session->peer().name + "', not '" +
                     theirs.worker.name + "'");
  }
  const auto link = session ? std::dynamic_pointer_cast<SocketLink>(session->link()) : nullptr;
  const ConnectionState::Hello said = session_part_of(theirs);
  auto decision = ConnectionState::Accept::refuse;
  if (link && session->incarnation() == theirs.incarnation) {
    decision = link->state().accept(said, link->frames_known_received(), link->has_started());
  } else {
    // The other side may be ahead of this worker: rank 0 introduced this worker to a new member before it announced
    // that member here, or the next session with a peer that was lost has not begun here yet.
    const bool may_be_new = agent_.group_events() && said.peer_incarnation == agent_.incarnation &&
                            (!session || session->incarnation() != theirs.incarnation) &&
                            !agent_.ended_sessions(theirs.worker.id, theirs.incarnation).for_good;
    decision = ConnectionState::accept_unknown(!session && agent_.expects_members(), may_be_new);
  }
  if (decision == ConnectionState::Accept::refuse) {
    const std::string why = "the session with worker '" + agent_.self.name + "' has ended";
    if (!link || session->incarnation() != theirs.incarnation) throw UsageError(why);
    return handshake.refuse(why, RefusalKind::ended, link->state().session());
  }
  if (decision == ConnectionState::Accept::newer) {  // the other side dials again and finds the next session
    const std::string why = name_of(session->peer()) + " has lost its session with this worker and begun another";
    return session->end(std::make_exception_ptr(PeerLostError(why, true)), {.may_return = true, .next = said.session});
  }
  // The peer may have timed out while its hello waited here.
  if (decision == ConnectionState::Accept::ignore || handshake.peer_closed()) return;
  const auto connector = agent_.connector_of(*session);
  link->state().take(said);
  link->disconnect("the peer has opened another connection");  // this side may not have noticed the loss
  if (!link->can_resume()) throw UsageError("the session with worker '" + agent_.self.name + "' has ended");
  Hello mine = first;
  mine.resumption.peer_incarnation = theirs.incarnation;
  mine.resumption.received = link->frames_received();
  mine.resumption.session = link->state().session();
  if (!handshake.say(mine)) return;
  std::unique_ptr<Stream> connection = handshake.release(mine.plain && theirs.plain);
  link->state().took();
  if (connector) connector->cancel();
  link->resume(std::move(connection), theirs.resumption.received);
}

/// Refuses a worker that cannot begin a session or join, with the reason. Returns false if it is not refused.
bool AgentAdmission::refused_by_group(Handshake& handshake, GroupEvents& events, const Hello& theirs) {
  std::optional<GroupEvents::Refusal> refusal;
  const bool in_range = theirs.worker.id >= 0 && theirs.worker.id < agent_.options.world_size;
  const auto session = in_range ? agent_.session(theirs.worker.id) : nullptr;
  if ((in_range && agent_.is_ending(theirs.worker.id)) ||
      (session && session->link() && !session->link()->gauges().connected && session->link()->gauges().begun)) {
    refusal = {.kind = RefusalKind::try_later,
               .text = "rank " + std::to_string(theirs.worker.id) + " has lost its connection and may come back"};
  } else {
    refusal = events.asked(theirs);
  }
  if (!refusal) return false;
  if (refusal->kind == RefusalKind::usage) {
    handshake.refuse_and_note(refusal->text, refusal->kind);
  } else {
    handshake.refuse(refusal->text, refusal->kind);
  }
  return true;
}

}  // namespace tendril::rpc::detail
