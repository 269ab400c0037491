#include "tendril/dist/collectives/detail/ring.h"

#include <algorithm>
#include <vector>

#include "tendril/tensor/raw.h"

namespace tendril::dist::detail {

namespace {

/// A range of a tensor's elements, and its number within its segment.
struct Chunk {
  uint32_t stage = 0, number = 0;
  int64_t begin = 0, length = 0;

  Tensor of(const Tensor& flat) const { return raw::narrow(flat, 0, begin, length); }
};

/// An empty segment becomes one empty chunk, so that its sender still sends a message.
void add_chunks(std::vector<Chunk>& chunks, uint32_t stage, int64_t begin, int64_t end, int64_t chunk) {
  uint32_t number = 0;
  do {
    const int64_t length = std::min(chunk, end - begin);
    chunks.push_back({stage, number++, begin, length});
    begin += length;
  } while (begin < end);
}

int64_t segment_begin(int64_t numel, int segment, int size) {
  return numel / size * segment + std::min<int64_t>(segment, numel % size);
}

void add_segment(std::vector<Chunk>& chunks, uint32_t stage, const Tensor& flat, int segment, int size, int64_t chunk) {
  const int at = (segment % size + size) % size;
  add_chunks(chunks, stage, segment_begin(flat.numel(), at, size), segment_begin(flat.numel(), at + 1, size), chunk);
}

/// In stage s a member sends segment start - s to the next member and receives segment start - s - 1 from the previous
/// one, which it sends in the following stage. In the first `reducing` stages it adds the received elements to its own,
/// later it replaces its own with them.
struct Ring {
  Channel& channel;
  const Tensor& flat;
  const Combine& combine;
  int64_t chunk;

  void run(int start, int stages, int reducing) {
    const int size = channel.size();
    std::vector<Chunk> sends, receives;
    for (int s = 0; s < stages; ++s) {
      add_segment(sends, static_cast<uint32_t>(s), flat, start - s, size, chunk);
      add_segment(receives, static_cast<uint32_t>(s), flat, start - s - 1, size, chunk);
    }
    std::size_t own = 0;  // number of chunks in stage 0, which do not depend on received ones
    while (own < sends.size() && sends[own].stage == 0) ++own;
    // Bounds how far sends run ahead of receives, while keeping all members busy.
    const auto window = static_cast<std::size_t>(size) + 4;
    std::size_t sent = 0, received = 0;
    while (sent < sends.size() || received < receives.size()) {
      while (sent < sends.size() && sent < received + window && (sent < own || sent - own < received)) {
        send(sends[sent++]);
      }
      if (received < receives.size()) receive(receives[received++], reducing);
    }
    channel.flush();
  }

  void send(const Chunk& one) {
    channel.send((channel.rank() + 1) % channel.size(), one.stage, one.number, one.of(flat));
  }
  void receive(const Chunk& one, int reducing) {
    const int from = (channel.rank() + channel.size() - 1) % channel.size();
    const Tensor part = channel.receive(from, one.stage, one.number, one.length, flat.dtype());
    const auto stage = static_cast<int>(one.stage);
    const Tensor mine = one.of(flat);
    if (stage >= reducing) return raw::copy_(mine, part);
    if (stage == reducing - 1 && combine.finish) return add_and_finish(mine, part);
    combine.add(mine, part);
  }
  /// Works in small blocks, so that the sums are still in the core's cache when they are finished.
  void add_and_finish(const Tensor& mine, const Tensor& part) {
    constexpr int64_t kElements = 32 * 1024;
    for (int64_t at = 0; at < mine.numel(); at += kElements) {
      const int64_t length = std::min(kElements, mine.numel() - at);
      const Tensor here = raw::narrow(mine, 0, at, length);
      combine.add(here, raw::narrow(part, 0, at, length));
      combine.finish(here);
    }
  }
};

}  // namespace

void ring_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk) {
  const int n = channel.size();
  Ring{channel, flat, combine, chunk}.run(channel.rank() - 1, 2 * (n - 1), n - 1);
}

void ring_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk) {
  const int n = channel.size();
  Ring{channel, flat, combine, chunk}.run(channel.rank() - 1, n - 1, n - 1);
}

void ring_all_gather(Channel& channel, const Tensor& flat, int64_t chunk) {
  Ring{channel, flat, {}, chunk}.run(channel.rank(), channel.size() - 1, 0);
}

void chain_all_reduce(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk) {
  const int rank = channel.rank(), size = channel.size(), last = size - 1, next = (rank + 1) % size;
  const int before = (rank + last) % size;
  std::vector<Chunk> chunks;
  add_chunks(chunks, 0, 0, flat.numel(), chunk);
  // Number of chunks that a member sends before it receives the sum of the first.
  const auto lag = static_cast<std::size_t>(size) + 4;
  for (std::size_t t = 0; t < chunks.size() + lag; ++t) {
    if (t < chunks.size()) {
      const Chunk& up = chunks[t];
      const Tensor mine = up.of(flat);
      if (rank == 0) {
        channel.send(next, 0, up.number, mine);
      } else {
        const Tensor sum = channel.receive(before, 0, up.number, up.length, flat.dtype());
        combine.add(sum, mine);
        if (rank < last) {
          channel.send(next, 0, up.number, sum);
        } else {
          if (combine.finish) combine.finish(sum);
          raw::copy_(mine, sum);
          channel.send(next, 1, up.number, sum);
        }
      }
    }
    if (t >= lag && rank != last) {
      const Chunk& down = chunks[t - lag];
      const Tensor sum = channel.receive(before, 1, down.number, down.length, flat.dtype());
      raw::copy_(down.of(flat), sum);
      if (next != last) channel.send(next, 1, down.number, sum);
    }
  }
  channel.flush();
}

void chain_reduce_scatter(Channel& channel, const Tensor& flat, const Combine& combine, int64_t chunk) {
  const int rank = channel.rank(), size = channel.size(), last = size - 1;
  const auto window = static_cast<std::size_t>(size) + 4;
  for (int segment = 0; segment < size; ++segment) {
    std::vector<Chunk> chunks;
    add_segment(chunks, static_cast<uint32_t>(segment), flat, segment, size, chunk);
    // The last member returns the sums of this member's segment while this member sends later chunks. Receiving them
    // meanwhile keeps few of them queued here.
    const std::size_t lag = segment == rank && rank != last ? window : chunks.size();
    const auto take = [&](const Chunk& one) {
      const auto stage = static_cast<uint32_t>(size + rank);
      raw::copy_(one.of(flat), channel.receive(last, stage, one.number, one.length, flat.dtype()));
    };
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const Chunk& one = chunks[i];
      Tensor sum = one.of(flat);
      if (rank > 0) {
        const Tensor mine = sum;
        sum = channel.receive(rank - 1, one.stage, one.number, one.length, flat.dtype());
        combine.add(sum, mine);
      }
      if (rank < last) {
        channel.send(rank + 1, one.stage, one.number, sum);
        channel.flush(window);
        if (i >= lag) take(chunks[i - lag]);
        continue;
      }
      if (combine.finish) combine.finish(sum);
      if (segment == rank) {
        raw::copy_(one.of(flat), sum);
      } else {
        channel.send(segment, static_cast<uint32_t>(size + segment), one.number, sum);
      }
    }
    if (segment != rank || rank == last) continue;
    for (std::size_t i = chunks.size() - std::min(chunks.size(), lag); i < chunks.size(); ++i) take(chunks[i]);
  }
  channel.flush();
}

void chain_broadcast(Channel& channel, const Tensor& flat, int root, int64_t chunk) {
  const int rank = channel.rank(), size = channel.size(), next = (rank + 1) % size, before = (rank + size - 1) % size;
  const auto window = static_cast<std::size_t>(size) + 4;
  std::vector<Chunk> chunks;
  add_chunks(chunks, 0, 0, flat.numel(), chunk);
  for (const Chunk& one : chunks) {
    Tensor part = one.of(flat);
    if (rank != root) {
      const Tensor came = channel.receive(before, 0, one.number, one.length, flat.dtype());
      raw::copy_(part, came);
      part = came;
    }
    if (next == root) continue;
    channel.send(next, 0, one.number, part);
    channel.flush(window);
  }
  channel.flush();
}

}  // namespace tendril::dist::detail
