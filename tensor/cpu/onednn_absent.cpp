#include "tendril/tensor/cpu/onednn.h"

namespace tendril::cpu::onednn {

bool available() noexcept { return false; }
bool takes(const Gemm&) noexcept { return false; }
bool sgemm(const Gemm&) { return false; }
bool bfloat16_gemm(const Gemm&, bool) { return false; }
uint64_t bfloat16_gemm_count() noexcept { return 0; }
uint64_t sgemm_count() noexcept { return 0; }
bool convolve(Map, const View&, const View&, const View&, const PartGeometry&, ChannelsLast, const View*,
              detail::PreparedForms*) {
  return false;
}
uint64_t convolution_count() noexcept { return 0; }
bool dislikes_crowded_rows() noexcept { return false; }
bool has_winograd() noexcept { return false; }
uint64_t winograd_count() noexcept { return 0; }
uint64_t turned_image_count() noexcept { return 0; }
uint64_t turned_weight_count() noexcept { return 0; }

}  // namespace tendril::cpu::onednn
