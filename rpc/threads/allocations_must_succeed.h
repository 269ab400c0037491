#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// During its lifetime, a simulation makes no allocation of this thread fail. For code that cannot undo its effects.
class AllocationsMustSucceed {
 public:
  AllocationsMustSucceed() noexcept;
  ~AllocationsMustSucceed();
  AllocationsMustSucceed(const AllocationsMustSucceed&) = delete;
  AllocationsMustSucceed& operator=(const AllocationsMustSucceed&) = delete;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
