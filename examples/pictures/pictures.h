#pragma once

#include <tendril/rpc/agent.h>

#include <memory>
#include <string>

/// Views of one storage: which of its elements each sees, by its sizes, strides and offset (docs/internals.md).
std::string strides();
/// In which order kernels walk over operands of one shape (docs/internals.md).
std::string plans();
/// In which order the engine runs the nodes of a small graph (docs/internals.md).
std::string engine();
/// The bytes of a request as it arrived, and what each says (docs/wire.md). On the first of two workers.
std::string frame();
/// On both workers, before there are calls: keeps a request that arrives for frame().
void record_frames(const std::shared_ptr<tendril::rpc::Agent>& agent);
/// When each action of three schedules runs (docs/pipeline.md).
std::string schedules();
