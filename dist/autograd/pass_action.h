#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// The state of a worker when it last had nothing left to do.
struct WorkerReport {
  rpc::WorkerId worker = -1;
  uint64_t number = 0;      ///< counts this worker's reports; later ones replace earlier ones
  bool unfinished = false;  ///< its part of the graph still waits for gradients

  friend bool operator==(const WorkerReport&, const WorkerReport&) = default;
};

using PassToken = uint64_t;  ///< identifies a received message that must be answered

/// The actions that a PassProtocol requests, one struct each.
namespace pass_action {

/// Answer a gradient, a mark or a resolve.
struct Answer {
  PassToken message = 0;
  std::vector<WorkerReport> reports = {};
};
/// Answer a gradient, a mark or a resolve with the error of the failed pass.
struct Refuse {
  PassToken message = 0;
};
/// Acknowledge an over message.
struct AnswerOver {
  PassToken message = 0;
};
/// Tell the worker that the pass will reach these of its send nodes. The answer goes to `PassProtocol::answered`.
struct SendMark {
  rpc::WorkerId to = -1;
  std::vector<MessageId> messages = {};
};
/// Tell the worker that unmarked send nodes will get no gradient. The answer goes to `PassProtocol::answered`.
struct SendResolve {
  rpc::WorkerId to = -1;
};
/// Tell the worker that the pass has failed. The answer goes to `PassProtocol::over_answered`.
struct SendOver {
  rpc::WorkerId to = -1;
};
/// Find the recv nodes behind these send nodes, then call `PassProtocol::walked`.
struct Walk {
  std::vector<MessageId> sends = {};
};
/// Find the recv nodes behind the roots, then call `PassProtocol::walked`.
struct WalkRoots {};
/// Run the graph with the gradients received so far, then call `PassProtocol::run_ended`.
struct RunGraph {};
/// Forget the pass and free the graph, because this worker's part has ended. Carried out before the pending answer is
/// sent.
struct End {};
/// Let backward return or throw. Root only, and the last action.
struct Finish {};

}  // namespace pass_action

using PassAction =
    std::variant<pass_action::Answer, pass_action::Refuse, pass_action::AnswerOver, pass_action::SendMark,
                 pass_action::SendResolve, pass_action::SendOver, pass_action::Walk, pass_action::WalkRoots,
                 pass_action::RunGraph, pass_action::End, pass_action::Finish>;

}  // namespace tendril::dist::autograd

TENDRIL_API_END
