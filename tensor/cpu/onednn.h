#pragma once

#include "tendril/tensor/cpu/level/level.h"

/// What oneDNN does faster, where the build has it (onednn.cpp) or has not (onednn_absent.cpp).
namespace tendril::cpu::onednn {

bool available() noexcept;
/// The float32 product, if oneDNN can take its strides. Uses up to num_threads() threads.
bool sgemm(const Gemm& g);
/// How many products oneDNN has made, for tests that must know which path they take.
uint64_t sgemm_count() noexcept;

}  // namespace tendril::cpu::onednn
