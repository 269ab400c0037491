#pragma once

namespace tendril::bench {

/// Issues a kernel that does nothing: what CUDA itself asks of the host for one operation.
void launch_nothing();

}  // namespace tendril::bench
