#include "tendril/dist/autograd/detail/messages.h"

#include "tendril/dist/autograd/detail/handlers.h"
#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/type_name.h"

namespace tendril::dist::autograd::detail {

using rpc::InputArchive;
using rpc::Message;
using rpc::OutputArchive;

namespace {

enum Flags : uint8_t { kRetain = 1, kFast = 2, kResolved = 4, kKnownFlags = 7 };
enum Outcome : uint8_t { kDone = 0, kRemote = 1, kPeerLost = 2, kTimeout = 3 };

Message start(RequestKind kind, std::size_t bytes) {
  Message message;
  message.function = function_of(kind);
  message.payload.reserve(bytes);
  return message;
}

constexpr std::size_t kHeaderBytes = 17;

void write_header(OutputArchive& archive, const PassHeader& header) {
  archive.number(header.context);
  archive.number(header.pass);
  archive.number(static_cast<uint8_t>((header.retain_graph ? kRetain : 0) | (header.fast ? kFast : 0) |
                                      (header.resolved ? kResolved : 0)));
}

PassHeader read_header(InputArchive& archive) {
  PassHeader header;
  header.context = archive.number<uint64_t>();
  header.pass = archive.number<uint64_t>();
  const auto flags = archive.number<uint8_t>();
  if ((flags & ~kKnownFlags) != 0) archive.fail("unknown flags of a backward pass");
  header.retain_graph = (flags & kRetain) != 0;
  header.fast = (flags & kFast) != 0;
  header.resolved = (flags & kResolved) != 0;
  return header;
}

Message write_header_only(RequestKind kind, const PassHeader& header) {
  Message message = start(kind, kHeaderBytes);
  OutputArchive archive(message);
  write_header(archive, header);
  return message;
}

PassHeader read_header_only(Message& request, const char* what) {
  InputArchive archive(request, what);
  const PassHeader header = read_header(archive);
  archive.finish();
  return header;
}

}  // namespace

Message write_gradient(const PassHeader& header, MessageId id, std::span<Tensor> gradients,
                       const std::vector<Device>& to) {
  Message message = start(RequestKind::gradient, kHeaderBytes + 16 + 4 * gradients.size());
  OutputArchive archive(message);
  write_header(archive, header);
  archive.number(id);
  archive.count(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    archive.tensor(gradients[i]);
    if (gradients[i].defined()) message.placements.push_back({.from = kCPU, .to = to[i]});
  }
  return message;
}

GradientMessage read_gradient(Message& request) {
  InputArchive archive(request, "the gradients of a message");
  GradientMessage read;
  read.header = read_header(archive);
  read.message = archive.number<uint64_t>();
  const std::size_t count = archive.count(4);
  read.gradients.reserve(count);
  for (std::size_t i = 0; i < count; ++i) read.gradients.push_back(archive.tensor());
  archive.finish();
  return read;
}

Message write_mark(const PassHeader& header, const std::vector<MessageId>& messages) {
  Message message = start(RequestKind::mark, kHeaderBytes + 8 + 8 * messages.size());
  OutputArchive archive(message);
  write_header(archive, header);
  archive << messages;
  return message;
}

MarkMessage read_mark(Message& request) {
  InputArchive archive(request, "the marks of a backward pass");
  MarkMessage read;
  read.header = read_header(archive);
  archive >> read.messages;
  archive.finish();
  return read;
}

Message write_resolve(const PassHeader& header) { return write_header_only(RequestKind::resolve, header); }
PassHeader read_resolve(Message& request) { return read_header_only(request, "the end of marking"); }
Message write_over(const PassHeader& header) { return write_header_only(RequestKind::over, header); }
PassHeader read_over(Message& request) { return read_header_only(request, "the end of a backward pass"); }

Message write_release(const ReleaseMessage& release) {
  Message message = start(RequestKind::release, 16);
  OutputArchive archive(message);
  archive.number(release.context);
  archive.number(release.oldest_alive);
  return message;
}

ReleaseMessage read_release(Message& request) {
  InputArchive archive(request, "the release of a context");
  ReleaseMessage read;
  read.context = archive.number<uint64_t>();
  read.oldest_alive = archive.number<uint64_t>();
  archive.finish();
  return read;
}

Message write_acknowledgement(bool incomplete) {
  Message message;
  OutputArchive archive(message);
  archive.number<uint8_t>(incomplete);
  return message;
}

bool read_acknowledgement(Message& reply) {
  InputArchive archive(reply, "the answer to the end of a pass or a context");
  const bool incomplete = archive.number<uint8_t>() != 0;
  archive.finish();
  return incomplete;
}

Message write_answer(const std::vector<WorkerReport>& reports) {
  Message message;
  message.payload.reserve(9 + 13 * reports.size());
  OutputArchive archive(message);
  archive.number<uint8_t>(kDone);
  archive.count(reports.size());
  for (const WorkerReport& report : reports) {
    archive.number(report.worker);
    archive.number(report.number);
    archive.number<uint8_t>(report.unfinished);
  }
  return message;
}

Message write_error(const std::exception_ptr& error, const std::string& self) {
  Message message;
  OutputArchive archive(message);
  const auto write = [&](Outcome outcome, const std::string& worker, const std::string& type, const std::string& text) {
    archive.number<uint8_t>(outcome);
    archive << worker << type << text;
  };
  try {
    std::rethrow_exception(error);
  } catch (const rpc::RemoteError& e) {
    write(kRemote, e.worker(), e.type(), e.message());
  } catch (const rpc::PeerLostError& e) {
    write(kPeerLost, self, "", e.what());
  } catch (const rpc::TimeoutError& e) {
    write(kTimeout, self, "", e.what());
  } catch (const std::exception& e) {
    write(kRemote, self, rpc::type_name(typeid(e)), e.what());
  } catch (...) {
    write(kRemote, self, "unknown", "something that is not a std::exception was thrown");
  }
  return message;
}

Answer read_answer(Message& reply) {
  InputArchive archive(reply, "the answer of a backward pass");
  Answer answer;
  const auto outcome = archive.number<uint8_t>();
  if (outcome == kDone) {
    const std::size_t count = archive.count(13);
    answer.reports.resize(count);
    for (WorkerReport& report : answer.reports) {
      report.worker = archive.number<rpc::WorkerId>();
      report.number = archive.number<uint64_t>();
      report.unfinished = archive.number<uint8_t>() != 0;
    }
  } else {
    std::string worker, type, text;
    archive >> worker >> type >> text;
    const auto with_name = [&] {
      return text.starts_with("backward on ") ? text : "backward on '" + worker + "': " + text;
    };
    switch (outcome) {
      case kRemote:
        answer.error = std::make_exception_ptr(rpc::RemoteError(worker, type, text));
        break;
      case kPeerLost:
        answer.error = std::make_exception_ptr(rpc::PeerLostError(with_name(), true));
        break;
      case kTimeout:
        answer.error = std::make_exception_ptr(rpc::TimeoutError(with_name()));
        break;
      default:
        archive.fail("an unknown outcome");
    }
  }
  archive.finish();
  return answer;
}

}  // namespace tendril::dist::autograd::detail
