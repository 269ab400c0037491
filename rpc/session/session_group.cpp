// Messages between rank 0 and the other workers, which may be longer than the peer's payload limit.
#include <algorithm>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/session/agent_impl.h"
#include "tendril/rpc/session/group_events.h"
#include "tendril/rpc/session/session.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMaxGroupBytes = std::size_t{256} << 20;
}

// Each part begins with one byte, which is 1 if another part follows.
bool Session::send_group(const Bytes& payload) {
  if (is_self()) return false;
  const std::size_t most = std::min<uint64_t>(link_->peer_limits().max_payload_bytes, uint64_t{1} << 20) - 1;
  std::size_t at = 0;
  bool sent = true;
  do {
    const std::size_t size = std::min(most, payload.size() - at);
    Message message;
    message.kind = MessageKind::group;
    message.payload.resize(1 + size);  // with appending, g++ 14 warns of freeing memory that no vector allocated
    message.payload[0] = std::byte{at + size < payload.size()};
    std::copy_n(payload.begin() + static_cast<std::ptrdiff_t>(at), size, message.payload.begin() + 1);
    at += size;
    sent = say(std::move(message)) && sent;
  } while (at < payload.size());
  agent_->arm_liveness_timer();
  return sent;
}

void Session::group_received(Bytes part) {
  const auto events = agent_->group_events();
  TENDRIL_CHECK_AS(MessageError, events && (agent_->self.id == 0 || peer_.id == 0),
                   "bad group message: neither side is rank 0 of a group");
  TENDRIL_CHECK_AS(MessageError, !part.empty() && part[0] <= std::byte{1}, "bad group message: a malformed part");
  TENDRIL_CHECK_AS(MessageError, group_message_.size() + part.size() <= kMaxGroupBytes, "bad group message: more than ",
                   kMaxGroupBytes, " bytes");
  group_message_.insert(group_message_.end(), part.begin() + 1, part.end());
  if (part[0] == std::byte{1}) return;
  events->received(peer_, incarnation_, std::exchange(group_message_, {}));
  agent_->arm_liveness_timer();
}

}  // namespace tendril::rpc::detail
