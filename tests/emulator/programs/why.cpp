// Prints how many devices there are and why there are none.
#include <cstdio>

#include "tendril/tensor/cuda/runtime.h"

int main() {
  std::printf("%d %s", tendril::device_count(tendril::DeviceType::cuda), tendril::cuda::why_unavailable().c_str());
}
