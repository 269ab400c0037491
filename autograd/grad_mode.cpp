#include "tendril/autograd/grad_mode.h"

namespace tendril::autograd::detail {
constinit thread_local bool grad_enabled = true;
}
