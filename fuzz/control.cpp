// Control messages of one peer, each as long as the two bytes before it say.
#include "tendril/rpc/wire/control.h"

#include "fuzz/input.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/wire.h"

using namespace tendril::rpc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  tendril::fuzz::Input input(data, size);
  ControlChannel channel;
  Clock::time_point now{};
  channel.send({ControlRecord{}, ControlRecord{.kind = ControlRecord::received}}, now);
  try {
    while (!input.empty()) {
      const auto part = input.part();
      now += std::chrono::milliseconds(50);
      const auto records = channel.receive(Bytes(part.begin(), part.end()), now);
      tendril::fuzz::require(records.size() <= ControlChannel::kMaxRecords + ControlChannel::kMaxAhead);
      for (const Bytes& message : channel.on_timer(now)) split_control(message, kMinPayloadBytes);
    }
  } catch (const MessageError&) {
  }
  return 0;
}
