#pragma once

#include <tendril/rpc/agent.h>

#include <memory>
#include <string>

/// Views of one storage: the elements that each shows, with its sizes, strides and offset (docs/internals.md).
std::string strides();
/// The order in which kernels walk over operands of one shape (docs/internals.md).
std::string plans();
/// The order in which the engine runs the nodes of a small graph (docs/internals.md).
std::string engine();
/// The bytes of a received request and their meaning (docs/wire.md). Call it on the first of two workers.
std::string frame();
/// Makes the agent keep a received request for frame(). Call it on both workers before the first call.
void record_frames(const std::shared_ptr<tendril::rpc::Agent>& agent);
/// The time at which each action of three schedules runs (docs/pipeline.md).
std::string schedules();
