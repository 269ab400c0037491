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

/// What one side of a session has lent to the other, and which segments the other has opened for it. A segment is
/// offered once for each device of the other side's that tensors go to; it counts from the answer on. What is lent is
/// kept until the other side gives it back, or the session ends. Knows nothing of CUDA; not thread-safe.
class LentTable {
 public:
  using Block = std::shared_ptr<void>;  ///< whatever keeps the memory
  enum class Offer : uint8_t { none, made, accepted, refused };
  using Opening = std::pair<uint32_t, int>;  ///< segment, the other side's device

  Offer offer(const Opening& opening) const {
    const auto found = offers_.find(opening);
    return found == offers_.end() ? Offer::none : found->second;
  }
  void offered(const Opening& opening) { offers_[opening] = Offer::made; }
  /// Throws MessageError for an answer to what was not asked.
  void answered(const Opening& opening, bool accepted) {
    TENDRIL_CHECK_AS(MessageError, offer(opening) == Offer::made, "bad lending message: segment ", opening.first,
                     " is not on offer for cuda:", opening.second);
    offers_[opening] = accepted ? Offer::accepted : Offer::refused;
  }

  /// Its number: 1, 2, 3, ...
  uint64_t lend(Block block) {
    blocks_.emplace(++last_id_, std::move(block));
    return last_id_;
  }
  /// The other side never heard of it.
  void forget(std::span<const uint64_t> ids, std::vector<Block>& out) {
    for (const uint64_t id : ids) {
      if (auto node = blocks_.extract(id)) out.push_back(std::move(node.mapped()));
    }
  }
  /// The other side gives them back. Throws MessageError, and nothing is given back, for one that it has not.
  void returned(std::span<const uint64_t> ids, std::vector<Block>& out) {
    const bool all =
        std::all_of(ids.begin(), ids.end(), [this](uint64_t id) { return blocks_.find(id) != blocks_.end(); });
    TENDRIL_CHECK_AS(MessageError, all, "bad lending message: it gives back what was not lent");
    forget(ids, out);
  }
  using Blocks = std::map<uint64_t, Block>;
  /// The end: all that is lent.
  Blocks take_all() noexcept { return std::exchange(blocks_, {}); }
  std::size_t lent() const noexcept { return blocks_.size(); }

 private:
  std::map<Opening, Offer> offers_;
  Blocks blocks_;
  uint64_t last_id_ = 0;
};

}  // namespace tendril::rpc::detail
