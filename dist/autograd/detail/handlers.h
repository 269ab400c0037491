#pragma once

#include <cstdint>

#include "tendril/rpc/call/function.h"

/// The requests of distributed autograd, as functions that agents serve.
namespace tendril::dist::autograd::detail {

enum class RequestKind : uint8_t { gradient, mark, resolve, over, release };

rpc::FunctionId function_of(RequestKind kind);

/// Registers these functions in this process. Not done by static initialisation, which the linker would drop from a
/// static library.
void serve_requests();
/// Registers the function with which `graph` of graph.h fetches a worker's part.
void serve_graphs();

}  // namespace tendril::dist::autograd::detail
