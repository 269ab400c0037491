#pragma once

#include <cstddef>

/// Memory for the packed panels of one matrix product (level/gemm.cpp), borrowed for its time. What is large lies in
/// the pool that all threads share (tensor/memory.h): as much is held as there are products at a time, not threads that
/// ever computed one. Not inline, as code that is compiled for several machines calls it.
namespace tendril::cpu {

/// 64-byte aligned, uninitialised; null if there is no memory.
void* borrow_panels(std::size_t bytes) noexcept;
/// `bytes` must be what was asked for.
void return_panels(void* panels, std::size_t bytes) noexcept;

}  // namespace tendril::cpu
