#include "tendril/rpc/transport/outgoing.h"

#include <algorithm>

namespace tendril::rpc {

void Outgoing::push(FrameList& frames) {
  while (!frames.empty()) {
    FrameList& to = frames.front().goes_in_parts() ? large_ : part_bytes_ > 0 ? next_ : first_;
    to.splice(to.end(), frames, frames.begin());
  }
}

const Frame* Outgoing::last_part_due() const noexcept {
  return part_bytes_ == 0 && !large_.empty() && next_part_is_last() ? &large_.front() : nullptr;
}

bool Outgoing::next_part_is_last() const noexcept { return large_.front().size() - part_begin_ <= kMaxPartBytes; }

void Outgoing::begin_part(uint32_t acknowledged) noexcept {
  Frame& frame = large_.front();
  if (part_begin_ == kFrameHeaderBytes) frame.announce_parts();
  part_bytes_ = std::min(frame.size() - part_begin_, kMaxPartBytes);
  part_header_ = part_header(part_bytes_, acknowledged);
}

/// Returns the size of the headers before the part's bytes: the part's, and before the first part also the frame's.
std::size_t Outgoing::headers_of_part() const noexcept {
  return part_begin_ == kFrameHeaderBytes ? 2 * kFrameHeaderBytes : kFrameHeaderBytes;
}

/// Gathers the part from offset `skip` on. Returns false if `out` has no room for all of it.
bool Outgoing::gather_part(std::size_t skip, std::span<ConstBuffer> out, std::size_t& count) const noexcept {
  const Frame& frame = large_.front();
  const std::size_t headers = headers_of_part();
  if (skip + kFrameHeaderBytes < headers) {
    if (count == out.size()) return false;
    frame.gather(skip, out.subspan(count, 1));  // the frame's header is its first buffer
    ++count;
    skip = kFrameHeaderBytes;
  }
  if (skip < headers) {
    if (count == out.size()) return false;
    const std::size_t from = skip + kFrameHeaderBytes - headers;
    out[count++] = {part_header_.data() + from, kFrameHeaderBytes - from};
    skip = headers;
  }
  std::size_t left = part_bytes_ - (skip - headers);
  const std::size_t end = count + frame.gather(part_begin_ + skip - headers, out.subspan(count));
  while (count < end && left > 0) {
    out[count].size = std::min(out[count].size, left);
    left -= out[count++].size;
  }
  return left == 0;
}

std::size_t Outgoing::gather(std::span<ConstBuffer> out) const noexcept {
  std::size_t count = 0, skip = offset_;
  const auto gather_whole = [&](const FrameList& frames) {
    for (const Frame& frame : frames) {
      if (count == out.size()) return;
      count += frame.gather(skip, out.subspan(count));
      skip = 0;
    }
  };
  gather_whole(first_);
  if (part_bytes_ > 0 && count < out.size() && gather_part(skip, out, count)) {
    skip = 0;
    gather_whole(next_);
  }
  return count;
}

FrameBytes Outgoing::written(std::size_t bytes, FrameList& done) {
  FrameBytes finished;
  offset_ += bytes;
  const auto finish_whole = [&] {
    while (!first_.empty() && offset_ >= first_.front().size()) {
      offset_ -= first_.front().size();
      finished.small += first_.front().size();
      done.splice(done.end(), first_, first_.begin());
    }
  };
  finish_whole();
  if (!first_.empty() || part_bytes_ == 0 || offset_ < headers_of_part() + part_bytes_) return finished;
  offset_ -= headers_of_part() + part_bytes_;
  finished.large += part_bytes_;
  part_begin_ += part_bytes_;
  part_bytes_ = 0;
  first_.swap(next_);
  if (part_begin_ == large_.front().size()) {
    part_begin_ = kFrameHeaderBytes;
    finished.large += kFrameHeaderBytes;
    ++finished.large_frames;
    done.splice(done.end(), large_, large_.begin());
  }
  finish_whole();
  return finished;
}

void Outgoing::give_back(FrameList& queue) noexcept {
  first_.splice(first_.end(), large_);
  first_.splice(first_.end(), next_);
  queue.splice(queue.begin(), first_);
  part_bytes_ = offset_ = 0;
  part_begin_ = kFrameHeaderBytes;
}

}  // namespace tendril::rpc
