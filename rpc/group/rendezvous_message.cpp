#include "tendril/rpc/group/rendezvous_message.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"

namespace tendril::rpc {

Bytes encode(const RendezvousMessage& message) {
  Message out;
  OutputArchive archive(out);
  archive << message.kind << message.question << message.text << message.failure << message.timeout_ms << message.epoch
          << message.attendance << message.ranks << message.parts << message.members;
  return std::move(out.payload);
}

Bytes with_question(Bytes encoded, uint32_t question) {
  std::memcpy(encoded.data() + sizeof(RendezvousKind), &question, sizeof question);
  return encoded;
}

RendezvousMessage decode_rendezvous(Bytes bytes) {
  Message in;
  in.payload = std::move(bytes);
  InputArchive archive(in, "rendezvous");
  RendezvousMessage message;
  archive >> message.kind >> message.question >> message.text >> message.failure >> message.timeout_ms >>
      message.epoch >> message.attendance >> message.ranks >> message.parts >> message.members;
  archive.finish();
  return message;
}

void throw_group_failure(GroupFailure failure, const std::string& text) {
  switch (failure) {
    case GroupFailure::timeout:
      throw TimeoutError(text);
    case GroupFailure::lost:
      throw PeerLostError(text, true);
    default:
      throw UsageError(text);
  }
}

}  // namespace tendril::rpc
