#include "tendril/rpc/wire/error_message.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/type_name.h"
#include "tendril/rpc/wire/wire.h"

namespace tendril::rpc {

namespace {

enum ErrorKind : uint8_t { remote = 0, unknown_function = 1, bad_message = 2, bad_reference = 3 };

/// Marks an error received from another worker, so that a worker that passes it on adds nothing to its text.
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

constexpr std::size_t kMaxTypeBytes = 1024;  // the name of a template type may be longer than any text
constexpr std::size_t kMaxNameBytes = 128;   // worker names are shorter

/// Cuts the text to at most `max_bytes`, which must exceed the length of the notice, between UTF-8 characters.
std::string shortened(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  const std::string notice = "... (cut: " + std::to_string(text.size()) + " bytes)";
  std::size_t kept = max_bytes - notice.size();
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;
  return std::string(text.substr(0, kept)) + notice;
}

/// Makes error messages with a limited payload size.
class Writer {
 public:
  explicit Writer(uint64_t max_bytes) : max_bytes_(std::max(max_bytes, kMinPayloadBytes)) {}

  Message write(ErrorKind kind, std::string_view type, const char* text, const ErrorPath* path = nullptr) const {
    Message message;
    message.kind = MessageKind::error;
    OutputArchive archive(message);
    const std::string short_type = shortened(type, kMaxTypeBytes);
    std::size_t others = 1 + 8 + short_type.size() + 8;
    ErrorPath short_path;
    if (path) {
      short_path = *path;
      short_path.worker = shortened(path->worker, kMaxNameBytes);
      others += 8 + short_path.worker.size() + 8 + 8;
      for (std::string& name : short_path.via) {
        name = shortened(name, kMaxNameBytes);
        others += 8 + name.size();
      }
    }
    archive << static_cast<uint8_t>(kind) << short_type << shortened(text ? text : "", max_bytes_ - others);
    if (path) archive << short_path.worker << short_path.via << short_path.more;
    return message;
  }

  template <class E>
  Message write_typed(ErrorKind kind, const E& error) const {
    const auto* received = dynamic_cast<const Received*>(&error);
    return received ? write(kind, "", received->text.c_str(), &received->path) : write(kind, "", error.what());
  }

 private:
  const uint64_t max_bytes_;
};

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

Message error_message(const std::exception_ptr& error, uint64_t max_bytes) {
  const Writer writer(max_bytes);
  try {
    std::rethrow_exception(error);
  } catch (const RemoteError& e) {
    return writer.write(ErrorKind::remote, e.type(), e.message().c_str(), &e.path());
  } catch (const UnknownFunctionError& e) {
    return writer.write_typed(unknown_function, e);
  } catch (const MessageError& e) {
    return writer.write_typed(bad_message, e);
  } catch (const RRefError& e) {
    return writer.write_typed(bad_reference, e);
  } catch (const std::exception& e) {
    return writer.write(ErrorKind::remote, type_name(typeid(e)), e.what());
  } catch (...) {
    return writer.write(ErrorKind::remote, "unknown", "something that is not a std::exception was thrown");
  }
}

std::exception_ptr read_error(Message& message, const std::string& worker,
                              const std::function<std::string()>& unserved) noexcept {
  try {
    uint8_t kind = 0;
    std::string type, text;
    InputArchive archive(message);
    archive >> kind >> type >> text;
    // A worker that passes on an error of another worker does serve the function that was called.
    if (kind == unknown_function && archive.left() == 0 && unserved) text = unserved();
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
  } catch (const std::bad_alloc&) {
    return std::current_exception();
  } catch (const std::exception& e) {
    try {
      return std::make_exception_ptr(
          MessageError("worker '" + worker + "' replied with an error that cannot be read: " + e.what()));
    } catch (...) {
      return std::current_exception();
    }
  }
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace tendril::rpc
