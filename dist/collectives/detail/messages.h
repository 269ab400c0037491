#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/tensor.h"

/// What members of a process group say to each other: requests of functions that every agent with collectives serves.
/// Reading throws rpc::MessageError.
namespace tendril::dist::detail {

/// Why a group has failed, in words that travel: every member throws the same.
struct Failure {
  enum Kind : uint8_t { none, lost, timeout, other };
  Kind kind = none;
  std::string text = {};

  explicit operator bool() const noexcept { return kind != none; }
  [[noreturn]] void raise() const;
  static Failure of(const std::exception_ptr& error);

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& kind& text;
  }
};

/// Which group: `key` is a hash of members and tag, `generation` a number of the occasion on which they made it.
struct GroupName {
  uint64_t key = 0, generation = 0;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& key& generation;
  }
};

struct PartMessage {
  GroupName group;
  uint64_t operation = 0;
  uint32_t stage = 0, chunk = 0;
  std::string what;
  Tensor part;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& group& operation& stage& chunk& what& part;
  }
};

struct FailureMessage {
  GroupName group;
  Failure failure;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& group& failure;
  }
};

/// Where a member is, for those who wait for it.
struct WhereaboutsMessage {
  bool made = false;                       ///< it has this group
  std::vector<rpc::WorkerId> joined = {};  ///< of the first member: who has, as far as it knows
  uint64_t operations = 0;                 ///< that it has begun
  std::string what = {};                   ///< the last one; of who abandoned making it: why

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& made& joined& operations& what;
  }
};

enum class CollectiveRequest : uint8_t { join, part, failure, whereabouts };

/// The name of such a request in errors of rpc: "call of dist::detail::CollectivePart".
std::string called(CollectiveRequest kind);

/// Has this process serve them.
void serve_collective_requests();

template <class T>
rpc::Message write_request(CollectiveRequest kind, const T& content);
template <class T>
T read_request(rpc::Message& request);

/// The answer to a join (`generation`) and to a part: none, or why not.
rpc::Message write_answer(const Failure& failure, uint64_t generation = 0);
Failure read_answer(rpc::Message& reply, uint64_t* generation = nullptr);

}  // namespace tendril::dist::detail
