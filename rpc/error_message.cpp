#include "tendril/rpc/error_message.h"

#include <cstdint>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/type_name.h"

namespace tendril::rpc {

namespace {

enum ErrorKind : uint8_t { remote = 0, unknown_function = 1, bad_message = 2, bad_reference = 3 };

Message write(ErrorKind kind, const std::string& type, const std::string& text) {
  Message message;
  message.kind = MessageKind::error;
  OutputArchive archive(message);
  archive << static_cast<uint8_t>(kind) << type << text;
  return message;
}

}  // namespace

Message error_message(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const UnknownFunctionError& e) {
    return write(unknown_function, "", e.what());
  } catch (const MessageError& e) {
    return write(bad_message, "", e.what());
  } catch (const RRefError& e) {
    return write(bad_reference, "", e.what());
  } catch (const std::exception& e) {
    return write(remote, type_name(typeid(e)), e.what());
  } catch (...) {
    return write(remote, "unknown", "something that is not a std::exception was thrown");
  }
}

std::exception_ptr read_error(Message& message, const std::string& worker) noexcept {
  try {
    uint8_t kind = 0;
    std::string type, text;
    InputArchive archive(message);
    archive >> kind >> type >> text;
    const std::string where = "worker '" + worker + "': ";
    switch (kind) {
      case unknown_function:
        return std::make_exception_ptr(UnknownFunctionError(where + text));
      case bad_message:
        return std::make_exception_ptr(MessageError(where + text));
      case bad_reference:
        return std::make_exception_ptr(RRefError(where + text));
      default:
        return std::make_exception_ptr(RemoteError(worker, type, text));
    }
  } catch (const std::exception& e) {
    return std::make_exception_ptr(
        MessageError("worker '" + worker + "' replied with an error that cannot be read: " + e.what()));
  }
}

}  // namespace tendril::rpc
