#pragma once

#include "tendril/tensor/cpu/level/level.h"

/// What oneDNN does faster, where the build has it (onednn.cpp) or has not (onednn_absent.cpp). All of it on the
/// calling thread alone: then the bits depend on the operands and on nothing else that runs.
namespace tendril::cpu::onednn {

bool available() noexcept;
/// Whether products whose operands' rows crowd the cache (matmul.cpp) take it up to twice as long as others: measured
/// for version 2.6 on AVX2.
bool dislikes_crowded_rows() noexcept;
/// Whether oneDNN can take a float32 product's strides, and so those of any of its parts.
bool takes(const Gemm& g) noexcept;
/// The float32 product, if oneDNN can take its strides.
bool sgemm(const Gemm& g);

/// The product of bfloat16 operands, as bfloat16 or float32, added up in float32. False, and nothing written: the
/// processor has no instruction for it, or oneDNN cannot take the strides.
bool bfloat16_gemm(const Gemm& g, bool float32_result);

/// Which operands of a convolution lie in channels-last order without gaps. In others, rows of the last three
/// dimensions follow each other; steps of the first may be larger.
struct ChannelsLast {
  bool images, weight;
};
/// A convolution's geometry, or that of some rows, which have padding above or below as they come first or last.
struct PartGeometry : ConvGeometry {
  PartGeometry(const ConvGeometry& of_all) : ConvGeometry(of_all), below(of_all.padding.h) {}
  int64_t below;  ///< padding; that of ConvGeometry is above
};
/// The three maps of a convolution of float32 (tensor/kernels.h), none of whose operands is empty. False: not done;
/// oneDNN has none for these sizes. `bias` [o], if there is one, is added to the result; `prepared` (kernels.h) saves
/// putting the weight in order.
enum class Map : uint8_t { result, data, filter };
bool convolve(Map map, const View& x, const View& weight, const View& out, const PartGeometry& geometry,
              ChannelsLast order, const View* bias = nullptr, detail::PreparedForms* prepared = nullptr);
/// Whether this oneDNN has Winograd's form for this processor (2.6 has it for AVX-512). `convolve` takes it where it
/// pays, but not in deterministic mode.
bool has_winograd() noexcept;

}  // namespace tendril::cpu::onednn
