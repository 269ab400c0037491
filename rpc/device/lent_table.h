#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

/// The blocks that one side of a session has lent, and the segments that the other side has opened for them. A segment
/// is offered once for each target device of the other side, and can be used once the other side has accepted it. A
/// block is kept until the other side returns it or the session ends. Independent of CUDA. Not thread-safe.
class LentTable {
 public:
  using Block = std::shared_ptr<void>;  ///< keeps the memory alive
  enum class Offer : uint8_t { none, made, accepted, refused };
  using Opening = std::pair<uint32_t, int>;  ///< segment, the other side's device

  Offer offer(const Opening& opening) const {
    const auto found = offers_.find(opening);
    return found == offers_.end() ? Offer::none : found->second;
  }
  void offered(const Opening& opening) { offers_[opening] = Offer::made; }
  /// Records the other side's answer. Throws MessageError if the segment is not on offer.
  void answered(const Opening& opening, bool accepted) {
    TENDRIL_CHECK_AS(MessageError, offer(opening) == Offer::made, "bad lending message: segment ", opening.first,
                     " is not on offer for cuda:", opening.second);
    offers_[opening] = accepted ? Offer::accepted : Offer::refused;
  }

  /// Adds a block and returns its number: 1, 2, 3, ...
  uint64_t lend(Block block) {
    blocks_.emplace(++last_id_, std::move(block));
    return last_id_;
  }
  /// Moves blocks of which the other side was never told to `out`. Ignores numbers that are not lent.
  void forget(std::span<const uint64_t> ids, std::vector<Block>& out) {
    for (const uint64_t id : ids) {
      if (auto node = blocks_.extract(id)) out.push_back(std::move(node.mapped()));
    }
  }
  /// Moves blocks that the other side returns to `out`. Throws MessageError and changes nothing if one is not lent.
  void returned(std::span<const uint64_t> ids, std::vector<Block>& out) {
    const bool all =
        std::all_of(ids.begin(), ids.end(), [this](uint64_t id) { return blocks_.find(id) != blocks_.end(); });
    TENDRIL_CHECK_AS(MessageError, all, "bad lending message: it returns a block that was not lent");
    forget(ids, out);
  }
  using Blocks = std::map<uint64_t, Block>;
  /// Takes all blocks, because the session has ended.
  Blocks take_all() noexcept { return std::exchange(blocks_, {}); }
  std::size_t lent() const noexcept { return blocks_.size(); }

 private:
  std::map<Opening, Offer> offers_;
  Blocks blocks_;
  uint64_t last_id_ = 0;
};

}  // namespace tendril::rpc::detail
