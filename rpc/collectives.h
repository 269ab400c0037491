#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/group.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Operations that all workers of a group do together. One thread of each worker calls them; all workers must call them
/// and barriers in the same order.
namespace tendril::rpc {

namespace detail {
/// Returns the value as bytes. Throws UsageError if it contains tensors or references, which cannot be gathered.
std::string gathered_bytes(const Message& value);
Message gathered_value(const std::string& bytes);
/// Gathers in the default group.
std::vector<std::string> all_gather(std::string bytes, std::chrono::milliseconds timeout);
std::vector<std::string> all_gather(std::string bytes, const std::vector<std::string>& names,
                                    std::chrono::milliseconds timeout);

template <class T, class Gather>
std::vector<T> all_gather_with(const T& value, const Gather& gather) {
  Message mine;
  OutputArchive output(mine);
  output << value;
  std::vector<T> values;
  for (const std::string& bytes : gather(gathered_bytes(mine))) {
    Message message = gathered_value(bytes);
    InputArchive input(message, "rpc::all_gather");
    T one{};
    input >> one;
    input.finish();
    values.push_back(std::move(one));
  }
  return values;
}
}  // namespace detail

/// Returns every worker's value, by rank. Meant for small values: addresses, sizes, losses, times. T must be the same
/// type everywhere, default-constructible, and a type that a call can send, without tensors or RRefs. Throws UsageError
/// for tensors, RRefs, and more than Group::kMaxGathered bytes, before any other worker waits for this one; otherwise
/// throws as Group::barrier does.
template <class T>
std::vector<T> all_gather(const T& value, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value,
                                 [&](std::string bytes) { return detail::all_gather(std::move(bytes), timeout); });
}
/// Does the same in a given group.
template <class T>
std::vector<T> all_gather(Group& group, const T& value, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value, [&](std::string bytes) { return group.gather(std::move(bytes), timeout); });
}

/// Returns the values of the named workers, by rank. This worker must be one of them (see Group::barrier).
template <class T>
std::vector<T> all_gather_among(const std::vector<std::string>& names, const T& value,
                                std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(
      value, [&](std::string bytes) { return detail::all_gather(std::move(bytes), names, timeout); });
}
/// Does the same in a given group.
template <class T>
std::vector<T> all_gather_among(Group& group, const std::vector<std::string>& names, const T& value,
                                std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value,
                                 [&](std::string bytes) { return group.gather(std::move(bytes), names, timeout); });
}

}  // namespace tendril::rpc

TENDRIL_API_END
