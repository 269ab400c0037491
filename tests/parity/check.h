#pragma once

#include <string>
#include <vector>

#include "tests/parity/case.h"

namespace tendril::parity {

/// What is wrong when the case runs here: "" if nothing is, that is: everything it expects comes out within the
/// tolerances of check.cpp; where PyTorch raises, an Error comes; and a case that is known to differ differs, in
/// exactly the way that it says.
std::string disagreement(const Case& of);

}  // namespace tendril::parity
