#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tendril/rpc/wire/message.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/tensor.h"

/// Messages between the members of a process group: requests to functions that every agent with collectives serves.
/// Reading a malformed message throws rpc::MessageError.
namespace tendril::dist::detail {

/// Why a group has failed, in a form that can be sent, so that every member throws the same error.
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

/// Identifies a group: `key` is a hash of the members and the tag; `generation` is a random number that is new each
/// time the group is made.
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

/// The status of a member, for members that wait for it.
struct WhereaboutsMessage {
  bool made = false;                       ///< whether it has this group
  std::vector<rpc::WorkerId> joined = {};  ///< from the first member: the members that have joined
  uint64_t operations = 0;                 ///< number of operations that it has begun
  std::string what = {};                   ///< the last operation; if it stopped joining: why

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& made& joined& operations& what;
  }
};

enum class CollectiveRequest : uint8_t { join, part, failure, whereabouts };

/// Returns how errors of rpc name such a request: "call of dist::detail::CollectivePart".
std::string called(CollectiveRequest kind);

/// Makes this process serve the requests.
void serve_collective_requests();

template <class T>
rpc::Message write_request(CollectiveRequest kind, const T& content);
template <class T>
T read_request(rpc::Message& request);

/// Writes the answer to a join, with its generation, or to a part. An empty `failure` means success.
rpc::Message write_answer(const Failure& failure, uint64_t generation = 0);
Failure read_answer(rpc::Message& reply, uint64_t* generation = nullptr);

}  // namespace tendril::dist::detail
