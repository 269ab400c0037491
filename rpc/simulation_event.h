#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Something that happened in a simulation: a message between two workers, or an event at one of them.
struct SimulationEvent {
  std::chrono::nanoseconds time{0};      ///< virtual time at which it happened, or the message was sent
  std::chrono::nanoseconds arrival{-1};  ///< arrival time of the message's last byte; negative: it did not arrive
  int from = -1;                         ///< rank; -1: no worker
  int to = -1;                           ///< rank of a message's receiver; -1: not a message
  /// For messages: "request", "reply", "error" and so on (docs/wire.md), "handshake", "connection" (closed or reset),
  /// and "bytes" if not recognized. For other events: "start", "return", "throw", "fault", "recovery", "log" and
  /// "connection" (made or refused).
  std::string kind;
  std::string text;         ///< the function of a call, the text of an error, or the fault
  uint64_t connection = 0;  ///< number of the connection; 0: none
  uint64_t bytes = 0;       ///< size of the message
  uint64_t call_id = 0;     ///< number of the call in its session; 0: none
  bool corrupted = false;   ///< whether a fault changed a byte of the message
};

}  // namespace tendril::rpc

TENDRIL_API_END
