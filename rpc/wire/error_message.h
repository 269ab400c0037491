#pragma once

#include <exception>
#include <functional>
#include <string>

#include "tendril/rpc/wire/message.h"

namespace tendril::rpc {

/// Makes a message (kind `error`) from an exception. The payload is an archive: u8 kind, string type, string text. The
/// kinds are 0: anything thrown by a function (arrives as RemoteError), 1: UnknownFunctionError, 2: MessageError,
/// 3: RRefError. For an error that the sender received from another worker, the parts of its ErrorPath up to the sender
/// follow: string worker, vector of strings via, u64 more.
/// A text that would make the payload larger than `max_bytes` (at least kMinPayloadBytes) is cut, and ends with a
/// notice. Throws std::bad_alloc only.
Message error_message(const std::exception_ptr& error, uint64_t max_bytes);

/// Returns the error in a message from `worker`. `unserved`, if not empty, returns the text of an UnknownFunctionError
/// about the call that the message ends. Never throws: if the payload cannot be read, returns an error about that.
std::exception_ptr read_error(Message& message, const std::string& worker,
                              const std::function<std::string()>& unserved = {}) noexcept;

/// Returns the text of an error, for use in another error's text.
std::string text_of(const std::exception_ptr& error);

}  // namespace tendril::rpc
