#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// While it lives, a simulation makes no allocation of this thread fail: the code could not undo what it has done.
class AllocationsMustSucceed {
 public:
  AllocationsMustSucceed() noexcept;
  ~AllocationsMustSucceed();
  AllocationsMustSucceed(const AllocationsMustSucceed&) = delete;
  AllocationsMustSucceed& operator=(const AllocationsMustSucceed&) = delete;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
