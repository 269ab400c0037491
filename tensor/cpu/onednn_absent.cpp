#include "tendril/tensor/cpu/onednn.h"

namespace tendril::cpu::onednn {

bool available() noexcept { return false; }
bool takes(const Gemm&) noexcept { return false; }
bool sgemm(const Gemm&) { return false; }
bool bfloat16_gemm(const Gemm&, bool) { return false; }
bool convolve(Map, const View&, const View&, const View&, const PartGeometry&, ChannelsLast, const View*,
              detail::PreparedForms*) {
  return false;
}
bool dislikes_crowded_rows() noexcept { return false; }
bool has_winograd() noexcept { return false; }

}  // namespace tendril::cpu::onednn
