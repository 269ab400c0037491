#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// An identifier that never repeats: the worker that made it, that worker's incarnation (a random number drawn when its
/// agent starts, so that the ids of a restarted worker differ), and a counter of that worker.
struct GlobalId {
  WorkerId worker = -1;
  uint64_t incarnation = 0;
  uint64_t number = 0;

  friend bool operator==(const GlobalId&, const GlobalId&) = default;
  friend auto operator<=>(const GlobalId&, const GlobalId&) = default;
};

/// Identifies a referenced object.
struct RRefId : GlobalId {
  friend bool operator==(const RRefId&, const RRefId&) = default;
  friend auto operator<=>(const RRefId&, const RRefId&) = default;
};

/// Identifies one user's reference to an object.
struct ForkId : GlobalId {
  friend bool operator==(const ForkId&, const ForkId&) = default;
  friend auto operator<=>(const ForkId&, const ForkId&) = default;
};

/// The counter's bits of GlobalId::number. The bits above identify the worker that holds an object.
constexpr uint64_t kCounterMask = (uint64_t{1} << 48) - 1;

/// Returns the worker and the counter, such as "3.17". Incarnations are omitted: they rarely help a reader.
std::string to_string(const GlobalId& id);

}  // namespace tendril::rpc

template <>
struct std::hash<tendril::rpc::GlobalId> {
  std::size_t operator()(const tendril::rpc::GlobalId& id) const noexcept {
    uint64_t h = id.incarnation ^ (static_cast<uint64_t>(static_cast<uint32_t>(id.worker)) << 32);
    h = (h ^ id.number) * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};
template <>
struct std::hash<tendril::rpc::RRefId> : std::hash<tendril::rpc::GlobalId> {};
template <>
struct std::hash<tendril::rpc::ForkId> : std::hash<tendril::rpc::GlobalId> {};

TENDRIL_API_END
