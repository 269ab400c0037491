#pragma once

namespace kernels::on_cuda {

/// Computes c [m, n] = a [m, k] b [k, n] in the current stream, with the lesson's fastest kernel. All pointers are to
/// device memory.
void launch_product(const float* a, const float* b, float* c, int m, int n, int k);

}  // namespace kernels::on_cuda
