#include "tendril/rpc/collectives.h"

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

std::string gathered_bytes(const Message& value) {
  TENDRIL_CHECK_AS(UsageError, value.tensors.empty() && value.references.empty(),
                   "rpc::all_gather: the value contains tensors or RRefs; send those by calls");
  return {reinterpret_cast<const char*>(value.payload.data()), value.payload.size()};
}

Message gathered_value(const std::string& bytes) {
  Message message;
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  message.payload.assign(begin, begin + bytes.size());
  return message;
}

}  // namespace tendril::rpc::detail
