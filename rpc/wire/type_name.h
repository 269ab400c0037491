#pragma once

#include <string>
#include <typeinfo>

#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Returns the type's name in source form, such as `std::vector<float>`.
std::string type_name(const std::type_info& type);

}  // namespace tendril::rpc

TENDRIL_API_END
