#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "tendril/dist/autograd/ids.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::dist::autograd {

/// How far a worker had come when it last had nothing to do.
struct WorkerReport {
  rpc::WorkerId worker = -1;
  uint64_t number = 0;      ///< of this worker's reports; later ones replace earlier ones
  bool unfinished = false;  ///< its part of the graph waits for gradients

  friend bool operator==(const WorkerReport&, const WorkerReport&) = default;
};

using PassToken = uint64_t;  ///< names a message to a worker that is to be answered

/// What a PassProtocol wants done, one struct for each.
namespace pass_action {

/// Answer a gradient, a mark or a resolve.
struct Answer {
  PassToken message = 0;
  std::vector<WorkerReport> reports = {};
};
/// Answer it with the error that the pass has failed with.
struct Refuse {
  PassToken message = 0;
};
/// Answer that it has heard that the pass is over.
struct AnswerOver {
  PassToken message = 0;
};
/// Send: the pass will reach these send nodes of yours. Its answer goes to `PassProtocol::answered`.
struct SendMark {
  rpc::WorkerId to = -1;
  std::vector<MessageId> messages = {};
};
/// Send: what is not marked will get no gradient. Its answer goes to `PassProtocol::answered`.
struct SendResolve {
  rpc::WorkerId to = -1;
};
/// Send: the pass has failed. Its answer goes to `PassProtocol::over_answered`.
struct SendOver {
  rpc::WorkerId to = -1;
};
/// Find the recv nodes behind these send nodes, then call `PassProtocol::walked`.
struct Walk {
  std::vector<MessageId> sends = {};
};
/// Find the recv nodes behind the roots, then call `PassProtocol::walked`.
struct WalkRoots {};
/// Run the graph with what has come, then call `PassProtocol::run_ended`.
struct RunGraph {};
/// This worker has no further part: forget the pass, free the graph. Before whoever waits for it is answered.
struct End {};
/// Of the root, and the last: backward is over.
struct Finish {};

}  // namespace pass_action

using PassAction =
    std::variant<pass_action::Answer, pass_action::Refuse, pass_action::AnswerOver, pass_action::SendMark,
                 pass_action::SendResolve, pass_action::SendOver, pass_action::Walk, pass_action::WalkRoots,
                 pass_action::RunGraph, pass_action::End, pass_action::Finish>;

}  // namespace tendril::dist::autograd

TENDRIL_API_END
