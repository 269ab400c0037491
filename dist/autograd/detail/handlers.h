#pragma once

#include <cstdint>

#include "tendril/rpc/call/function.h"

/// The requests of dist/ as functions that agents serve.
namespace tendril::dist::autograd::detail {

enum class RequestKind : uint8_t { gradient, mark, resolve, over, release };

rpc::FunctionId function_of(RequestKind kind);

/// Has this process serve them. Not by static initialisation: a static library would drop it.
void serve_requests();
/// ... and its part of a graph, for graph.h.
void serve_graphs();

}  // namespace tendril::dist::autograd::detail
