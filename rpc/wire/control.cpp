#include "tendril/rpc/wire/control.h"

#include <algorithm>

#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc {
namespace {

constexpr std::size_t kHeaderBytes = 24;  // u64 acknowledged, u64 first record's number, u32 count, u32 zero
constexpr std::size_t kRecordBytes = 56;

std::byte* put_id(std::byte* at, const GlobalId& id) {
  at = put(at, id.incarnation);
  return put(at, id.number);
}

std::byte* put_record(std::byte* at, const ControlRecord& record) {
  at = put<uint8_t>(at, record.kind);
  at = put<uint8_t>(at, static_cast<uint8_t>(record.message));
  at = put<uint16_t>(at, 0);
  at = put<uint32_t>(at, 0);
  at = put<uint64_t>(at, record.call_id);
  at = put<int32_t>(at, record.rref.worker);
  at = put<int32_t>(at, record.fork.worker);
  at = put_id(at, record.rref);
  return put_id(at, record.fork);
}

ControlRecord read_record(const std::byte* at) {
  ControlRecord record;
  const auto kind = get<uint8_t>(at), message = get<uint8_t>(at + 1);
  TENDRIL_CHECK_AS(MessageError, kind >= ControlRecord::fork_request && kind <= ControlRecord::creations_from,
                   "bad control message: unknown record ", int{kind});
  TENDRIL_CHECK_AS(MessageError, message == 1 || message == 2, "bad control message: unknown kind of message ",
                   int{message});
  record.kind = static_cast<ControlRecord::Kind>(kind);
  record.message = static_cast<MessageKind>(message);
  record.call_id = get<uint64_t>(at + 8);
  record.rref.worker = get<int32_t>(at + 16);
  record.fork.worker = get<int32_t>(at + 20);
  record.rref.incarnation = get<uint64_t>(at + 24);
  record.rref.number = get<uint64_t>(at + 32);
  record.fork.incarnation = get<uint64_t>(at + 40);
  record.fork.number = get<uint64_t>(at + 48);
  return record;
}

}  // namespace

template <class Iterator>
Bytes ControlChannel::encode(uint64_t first, Iterator begin, Iterator end) {
  const auto count = static_cast<std::size_t>(end - begin);
  Bytes payload(kHeaderBytes + count * kRecordBytes);
  std::byte* at = put<uint64_t>(payload.data(), next_expected_ - 1);
  at = put<uint64_t>(at, first);
  at = put<uint32_t>(at, static_cast<uint32_t>(count));
  at = put<uint32_t>(at, 0);
  for (; begin != end; ++begin) at = put_record(at, *begin);
  ack_at_ = Clock::time_point::max();  // this message includes the acknowledgement
  return payload;
}

Bytes ControlChannel::send(std::vector<ControlRecord> records, Clock::time_point now) {
  const uint64_t first = next_to_send_;
  const Clock::time_point ack_at = ack_at_;
  Bytes payload = encode(first, records.begin(), records.end());
  const bool was_empty = sent_.empty();
  try {
    sent_.insert(sent_.end(), records.begin(), records.end());
  } catch (...) {
    ack_at_ = ack_at;  // the message, and its acknowledgement, will not be sent
    throw;
  }
  next_to_send_ += records.size();
  if (was_empty) {
    retry_delay_ = kFirstRetry;
    retry_at_ = now + retry_delay_;
  }
  return payload;
}

std::vector<ControlRecord> ControlChannel::receive(const Bytes& payload, Clock::time_point now) {
  TENDRIL_CHECK_AS(MessageError, payload.size() >= kHeaderBytes, "bad control message: truncated");
  const auto acknowledged = get<uint64_t>(payload.data()), first = get<uint64_t>(payload.data() + 8);
  const auto count = get<uint32_t>(payload.data() + 16);
  TENDRIL_CHECK_AS(MessageError, count <= kMaxRecords, "bad control message: ", count, " records, at most ",
                   kMaxRecords, " are allowed");
  TENDRIL_CHECK_AS(MessageError, payload.size() == kHeaderBytes + count * kRecordBytes, "bad control message: ", count,
                   " records announced in ", payload.size(), " bytes");
  TENDRIL_CHECK_AS(MessageError, acknowledged < next_to_send_, "bad control message: record ", acknowledged,
                   " acknowledged, ", next_to_send_ - 1, " sent");
  TENDRIL_CHECK_AS(MessageError, first >= 1 && first <= UINT64_MAX - count, "bad control message: numbers overflow");

  const uint64_t oldest = next_to_send_ - sent_.size();
  if (acknowledged >= oldest) {
    sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(acknowledged - oldest + 1));
    retry_delay_ = kFirstRetry;
    retry_at_ = sent_.empty() ? Clock::time_point::max() : now + retry_delay_;
  }
  if (count > 0) ack_at_ = std::min(ack_at_, now + kAckDelay);

  std::vector<ControlRecord> due;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t number = first + i;
    if (number < next_expected_ || number - next_expected_ > kMaxAhead) continue;  // duplicate, or will be resent
    const ControlRecord record = read_record(payload.data() + kHeaderBytes + i * kRecordBytes);
    if (number == next_expected_) {
      due.push_back(record);
      ++next_expected_;
      for (auto next = ahead_.find(next_expected_); next != ahead_.end(); next = ahead_.find(next_expected_)) {
        due.push_back(next->second);
        ahead_.erase(next);
        ++next_expected_;
      }
    } else {
      ahead_.emplace(number, record);
    }
  }
  return due;
}

std::vector<Bytes> ControlChannel::on_timer(Clock::time_point now) {
  std::vector<Bytes> messages;
  if (now >= retry_at_) {
    const uint64_t oldest = next_to_send_ - sent_.size();
    const std::size_t again = std::min(sent_.size(), kMaxAhead);  // the peer does not keep more
    for (std::size_t at = 0; at < again; at += kMaxRecords) {
      const std::size_t end = std::min(again, at + kMaxRecords);
      messages.push_back(encode(oldest + at, sent_.begin() + static_cast<std::ptrdiff_t>(at),
                                sent_.begin() + static_cast<std::ptrdiff_t>(end)));
    }
    retry_delay_ = std::min<Clock::duration>(2 * retry_delay_, kLastRetry);
    retry_at_ = now + retry_delay_;
  }
  if (now >= ack_at_) {
    const std::vector<ControlRecord> none;
    messages.push_back(encode(next_to_send_, none.begin(), none.end()));
  }
  return messages;
}

Clock::time_point ControlChannel::next_timer() const noexcept { return std::min(retry_at_, ack_at_); }

std::vector<Bytes> split_control(Bytes message, uint64_t max_bytes) {
  std::vector<Bytes> parts;
  if (message.size() <= max_bytes) {
    parts.push_back(std::move(message));
    return parts;
  }
  const std::size_t at_once = (max_bytes - kHeaderBytes) / kRecordBytes;
  const auto first = get<uint64_t>(message.data() + 8);
  const std::size_t records = (message.size() - kHeaderBytes) / kRecordBytes;
  for (std::size_t at = 0; at < records; at += at_once) {
    const std::size_t count = std::min(at_once, records - at);
    Bytes& part = parts.emplace_back(message.begin(), message.begin() + kHeaderBytes);
    put<uint64_t>(part.data() + 8, first + at);
    put<uint32_t>(part.data() + 16, static_cast<uint32_t>(count));
    const auto from = message.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + at * kRecordBytes);
    part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(count * kRecordBytes));
  }
  return parts;
}

}  // namespace tendril::rpc
