#pragma once

#include <map>
#include <vector>

#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// A recorded message of a simulated graph: its send node is with `sender`, its recv node with `receiver`. The recv
/// node waits for the gradients of the receiver's send nodes in `users`, and of the roots (which are on the rank that
/// calls backward).
struct SimulatedMessage {
  rpc::WorkerId sender = 0;           ///< who has its send node
  rpc::WorkerId receiver = 0;         ///< who has its recv node
  std::vector<MessageId> users = {};  ///< what the receiver sent that was computed from it
  bool used_by_root = false;          ///< the roots were computed from it
};
/// All messages, by their names.
using SimulatedGraph = std::map<MessageId, SimulatedMessage>;

}  // namespace tendril::dist::autograd

TENDRIL_API_END
