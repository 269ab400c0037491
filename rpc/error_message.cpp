#include "tendril/rpc/error_message.h"

#include <cstdint>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/function.h"
#include "tendril/rpc/type_name.h"

namespace tendril::rpc {

namespace {

enum ErrorKind : uint8_t { remote = 0, unknown_function = 1, bad_message = 2, bad_reference = 3 };

/// Marks an error that came from another worker, so that one who passes it on adds nothing to its text.
class Received {
 public:
  Received(ErrorPath from, std::string what) : path(std::move(from)), text(std::move(what)) {}
  virtual ~Received() = default;

  const ErrorPath path;
  const std::string text;
};

template <class E>
class ReceivedAs final : public E, public Received {
 public:
  ReceivedAs(ErrorPath from, const std::string& what)
      : E(from.to_string() + ": " + what), Received(std::move(from), what) {}
};

Message write(ErrorKind kind, const std::string& type, const std::string& text, const ErrorPath* path = nullptr) {
  Message message;
  message.kind = MessageKind::error;
  OutputArchive archive(message);
  archive << static_cast<uint8_t>(kind) << type << text;
  if (path) archive << path->worker << path->via << path->more;
  return message;
}

template <class E>
Message write_typed(ErrorKind kind, const E& error) {
  const auto* received = dynamic_cast<const Received*>(&error);
  return received ? write(kind, "", received->text, &received->path) : write(kind, "", error.what());
}

ErrorPath read_path(InputArchive& archive, const std::string& sender) {
  ErrorPath path;
  if (archive.left() == 0) {
    path.worker = sender;
    return path;
  }
  std::vector<std::string> via;
  uint64_t more = 0;
  archive >> path.worker >> via >> more;
  for (std::string& name : via) path.passed_on_by(std::move(name));
  path.more += more;
  path.passed_on_by(sender);
  return path;
}

}  // namespace

Message error_message(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const RemoteError& e) {
    return write(remote, e.type(), e.message(), &e.path());
  } catch (const UnknownFunctionError& e) {
    return write_typed(unknown_function, e);
  } catch (const MessageError& e) {
    return write_typed(bad_message, e);
  } catch (const RRefError& e) {
    return write_typed(bad_reference, e);
  } catch (const std::exception& e) {
    return write(remote, type_name(typeid(e)), e.what());
  } catch (...) {
    return write(remote, "unknown", "something that is not a std::exception was thrown");
  }
}

std::exception_ptr read_error(Message& message, const std::string& worker, const ServedFunction* called) noexcept {
  try {
    uint8_t kind = 0;
    std::string type, text;
    InputArchive archive(message);
    archive >> kind >> type >> text;
    // A worker that passes on what it got from another one does serve the function that was called.
    if (kind == unknown_function && archive.left() == 0 && called) text = describe_unserved(*called);
    ErrorPath path = read_path(archive, worker);
    switch (kind) {
      case unknown_function:
        return std::make_exception_ptr(ReceivedAs<UnknownFunctionError>(std::move(path), text));
      case bad_message:
        return std::make_exception_ptr(ReceivedAs<MessageError>(std::move(path), text));
      case bad_reference:
        return std::make_exception_ptr(ReceivedAs<RRefError>(std::move(path), text));
      default:
        return std::make_exception_ptr(RemoteError(std::move(path), type, text));
    }
  } catch (const std::exception& e) {
    return std::make_exception_ptr(
        MessageError("worker '" + worker + "' replied with an error that cannot be read: " + e.what()));
  }
}

}  // namespace tendril::rpc
