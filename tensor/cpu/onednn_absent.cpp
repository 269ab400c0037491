#include "tendril/tensor/cpu/onednn.h"

namespace tendril::cpu::onednn {

bool available() noexcept { return false; }
bool sgemm(const Gemm&) { return false; }
uint64_t sgemm_count() noexcept { return 0; }
bool convolve(Map, const View&, const View&, const View&, const ConvGeometry&, const View*) { return false; }
uint64_t convolution_count() noexcept { return 0; }

}  // namespace tendril::cpu::onednn
