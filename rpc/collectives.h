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

/// What all workers of a group do together. One thread of each worker, and in the same order as barriers.
namespace tendril::rpc {

namespace detail {
/// The value as bytes. Throws UsageError if it has tensors or references, which bytes cannot hold.
std::string gathered_bytes(const Message& value);
Message gathered_value(const std::string& bytes);
/// Of the default group.
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

/// Every worker's value, by rank: addresses, sizes, losses, times. T is the same type everywhere,
/// default-constructible, and what a call could send but for tensors and RRefs, which are for calls. Throws UsageError
/// for those and for more than Group::kMaxGathered bytes, before anybody waits for this worker; else as Group::barrier
/// does.
template <class T>
std::vector<T> all_gather(const T& value, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value,
                                 [&](std::string bytes) { return detail::all_gather(std::move(bytes), timeout); });
}
/// The same in a group that is not this process's default one.
template <class T>
std::vector<T> all_gather(Group& group, const T& value, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value, [&](std::string bytes) { return group.gather(std::move(bytes), timeout); });
}

/// Among some workers, this one among them (Group::barrier): their values, by rank.
template <class T>
std::vector<T> all_gather_among(const std::vector<std::string>& names, const T& value,
                                std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(
      value, [&](std::string bytes) { return detail::all_gather(std::move(bytes), names, timeout); });
}
/// As above, on a given group.
template <class T>
std::vector<T> all_gather_among(Group& group, const std::vector<std::string>& names, const T& value,
                                std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  return detail::all_gather_with(value,
                                 [&](std::string bytes) { return group.gather(std::move(bytes), names, timeout); });
}

}  // namespace tendril::rpc

TENDRIL_API_END
