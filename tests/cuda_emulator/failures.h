#pragma once

#include "cuda_emulator/emulator.h"

namespace cuda_emulator {

/// The status that `fail_next_planning` left for this; 0, SUCCESS of both libraries, otherwise and from then on.
int planned_failure(Planning what);

}  // namespace cuda_emulator
