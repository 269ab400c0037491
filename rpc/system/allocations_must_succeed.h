#pragma once

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc::detail {

/// While one exists, a simulation lets every allocation of this thread succeed. For code that cannot undo its effects.
class AllocationsMustSucceed {
 public:
  AllocationsMustSucceed() noexcept;
  ~AllocationsMustSucceed();
  AllocationsMustSucceed(const AllocationsMustSucceed&) = delete;
  AllocationsMustSucceed& operator=(const AllocationsMustSucceed&) = delete;
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
