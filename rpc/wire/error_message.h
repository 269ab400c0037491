#pragma once

#include <exception>
#include <string>

#include "tendril/rpc/wire/message.h"

namespace tendril::rpc {

struct ServedFunction;

/// Errors as messages (kind `error`). The payload is an archive: u8 kind, string type, string text, with kind
/// 0: anything a function threw (arrives as RemoteError), 1: UnknownFunctionError, 2: MessageError, 3: RRefError.
/// Of an error that the sender got from another worker follow the parts of its ErrorPath, up to the sender: string
/// worker, vector of strings via, u64 more.
/// A text that would make the payload larger than `max_bytes` (at least kMinPayloadBytes) is cut, and says so.
/// Throws std::bad_alloc only.
Message error_message(const std::exception_ptr& error, uint64_t max_bytes);

/// The error in a message from `worker`; `called` is the function whose call it ends, if this program knows it. A
/// payload that cannot be read is an error too: never throws.
std::exception_ptr read_error(Message& message, const std::string& worker,
                              const ServedFunction* called = nullptr) noexcept;

/// Its text, for an error that says it of something else.
std::string text_of(const std::exception_ptr& error);

}  // namespace tendril::rpc
