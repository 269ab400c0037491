#include "tendril/rpc/group/sent_messages.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "tendril/rpc/group/rendezvous_message.h"
#include "tendril/rpc/wire/error_message.h"
#include "tendril/rpc/wire/hello.h"
#include "tendril/rpc/wire/wire_layout.h"

namespace tendril::rpc::detail {
namespace {

std::span<const std::byte> raw_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

const char* name_of_kind(MessageKind kind) noexcept {
  switch (kind) {
    case MessageKind::request:
      return "request";
    case MessageKind::reply:
      return "reply";
    case MessageKind::error:
      return "error";
    case MessageKind::cancel:
      return "cancel";
    case MessageKind::control:
      return "control";
    case MessageKind::ping:
      return "ping";
    case MessageKind::pong:
      return "pong";
    case MessageKind::goodbye:
      return "goodbye";
    case MessageKind::credit:
      return "credit";
    case MessageKind::acknowledge:
      return "acknowledge";
    case MessageKind::group:
      return "group";
    case MessageKind::lending:
      return "lending";
  }
  return "bytes";
}

const char* name_of_kind(RendezvousKind kind) noexcept {
  switch (kind) {
    case RendezvousKind::join:
      return "join";
    case RendezvousKind::contribute:
      return "contribute";
    case RendezvousKind::fail:
      return "fail";
    case RendezvousKind::leave:
      return "leave";
    case RendezvousKind::lost_peer:
      return "lost peer";
    case RendezvousKind::welcome:
      return "welcome";
    case RendezvousKind::gathered:
      return "gathered";
    case RendezvousKind::refused:
      return "refused";
    case RendezvousKind::not_gathered:
      return "not gathered";
    case RendezvousKind::changed:
      return "members changed";
  }
  return "";
}

/// Returns the contents of a frame as readable text. Empty for kinds that need no description.
std::string text_of_frame(MessageKind kind, Bytes payload) {
  if (kind == MessageKind::error) {
    Message message{.kind = kind, .payload = std::move(payload)};
    return text_of(read_error(message, "the sender"));
  }
  if (kind == MessageKind::group) {
    if (payload.empty() || payload.front() != std::byte{0}) return "a part";  // Session::send_group
    payload.erase(payload.begin());
    const RendezvousMessage message = decode_rendezvous(std::move(payload));
    std::string text = name_of_kind(message.kind);
    if (!message.text.empty()) text += ": " + message.text;
    if (message.kind == RendezvousKind::changed)
      for (const MemberRecord& member : message.members) text += ", rank " + std::to_string(member.rank);
    return text;
  }
  return "";
}

std::string text_of_hello(std::string_view bytes) {
  const Hello hello = decode_hello(raw_bytes(bytes));
  std::string text = (hello.enquiry ? "enquiry of " : "hello of ") + hello.worker.name;
  if (!hello.refusal.empty()) text += ", refuses: " + hello.refusal;
  return text;
}

}  // namespace

void SentMessages::add(std::string_view bytes, const Changed& changed) {
  while (!bytes.empty()) {
    const std::size_t taken = take(bytes, changed);
    sent_ += taken;
    bytes.remove_prefix(taken);
    if (in_body_ && left_ == 0) body_ended(changed);
  }
}

/// Consumes bytes up to the end of the current header or body at most. Returns their number.
std::size_t SentMessages::take(std::string_view bytes, const Changed& changed) {
  if (raw_) {
    changed({.number = ++begun_, .bytes = bytes.size(), .begin = sent_, .end = sent_ + bytes.size()});
    return bytes.size();
  }
  if (!in_body_) return take_head(bytes, changed);
  const std::size_t count = std::min<uint64_t>(bytes.size(), left_);
  Unfinished& message = is_part_ ? in_parts_ : now_;
  message.kept.append(bytes.substr(0, std::min(count, kMostKept - std::min(kMostKept, message.kept.size()))));
  left_ -= count;
  return count;
}

std::size_t SentMessages::take_head(std::string_view bytes, const Changed& changed) {
  const std::size_t count = std::min(bytes.size(), head_bytes_ - head_.size());
  head_.append(bytes.substr(0, count));
  if (head_.size() < head_bytes_) return count;
  const bool is_prefix = head_bytes_ == kPrefixBytes;
  const uint64_t end = sent_ + count;
  if (is_prefix) {
    recognize_prefix(end - kPrefixBytes);
  } else {
    recognize_frame();
  }
  if (raw_) now_.message.end = end;
  if (!is_part_) changed(now_.message);
  if (raw_ || in_body_) {
    head_.clear();
    head_bytes_ = kPrefixBytes;
  }
  return count;
}

/// Recognizes a message by its first kPrefixBytes.
void SentMessages::recognize_prefix(uint64_t begin) {
  is_part_ = static_cast<uint8_t>(head_[5]) == kPartOfFrame && head_.starts_with("TDRL");
  if (head_.starts_with("TDRL")) {
    head_bytes_ = kFrameHeaderBytes;
    if (!is_part_) now_ = {.message = {.number = ++begun_, .bytes = head_.size(), .begin = begin}};
    return;
  }
  now_ = {.message = {.number = ++begun_, .bytes = head_.size(), .begin = begin}, .kept = head_};
  try {
    const std::size_t size = hello_size(raw_bytes(head_)).value();
    now_.message.kind = "hello";
    now_.message.bytes = size;
    left_ = size - head_.size();
    in_body_ = true;
  } catch (const std::exception&) {
    raw();
  }
}

void SentMessages::recognize_frame() {
  const auto header = read_frame_header(raw_bytes(head_).first<kFrameHeaderBytes>());
  const bool is_possible = header && (header->is_part ? in_parts_.unannounced >= header->body && header->body > 0
                                                      : !header->in_parts || in_parts_.unannounced == 0);
  if (!is_possible) {
    if (is_part_) now_ = {.message = {.number = ++begun_, .bytes = head_.size(), .begin = sent_}};
    is_part_ = false;
    return raw();
  }
  in_body_ = true;
  left_ = header->body;
  if (is_part_) {
    in_parts_.unannounced -= header->body;
    in_parts_.message.bytes += kFrameHeaderBytes;
    return;
  }
  now_.message.kind = name_of_kind(header->kind);
  now_.message.call_id = header->call_id;
  now_.message.function = header->function;
  now_.message.bytes = kFrameHeaderBytes + header->body;
  now_.metadata = header->metadata;
  if (!header->in_parts) return;
  in_parts_ = now_;
  in_parts_.unannounced = header->body;
  left_ = 0;
}

/// Called when the body of a message, a part, or the header of a frame that is sent in parts is complete.
void SentMessages::body_ended(const Changed& changed) {
  in_body_ = false;
  Unfinished& message = is_part_ ? in_parts_ : now_;
  const bool parts_follow =
      in_parts_.unannounced > 0 && (is_part_ || message.message.number == in_parts_.message.number);
  is_part_ = false;
  if (parts_follow) return;
  message.message.end = sent_;
  const bool is_whole = message.kept.size() < kMostKept;
  try {
    if (message.message.kind == "hello") {
      message.message.text = text_of_hello(message.kept);
    } else if (is_whole && (message.message.kind == "error" || message.message.kind == "group")) {
      const auto kept = raw_bytes(message.kept).subspan(std::min<std::size_t>(message.metadata, message.kept.size()));
      message.message.text = text_of_frame(message.message.kind == "error" ? MessageKind::error : MessageKind::group,
                                           Bytes(kept.begin(), kept.end()));
    }
  } catch (const std::exception& e) {
    message.message.text = std::string("cannot be read: ") + e.what();
  }
  changed(message.message);
  message.kept = {};
}

}  // namespace tendril::rpc::detail
