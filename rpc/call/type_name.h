#pragma once

#include <string>
#include <typeinfo>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// The type as a reader writes it: `std::vector<float>`, not what the linker calls it.
std::string type_name(const std::type_info& type);

}  // namespace tendril::rpc

TENDRIL_API_END
