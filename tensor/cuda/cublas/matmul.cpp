#include "tendril/tensor/cuda/cublas/blas.h"
#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/math_mode.h"

namespace tendril::cuda {

void matmul(const View& out, const View& a, const View& b) {
  if (is_integral(out.dtype)) return matmul_integers(out, a, b);
  multiply("matmul", out, a, b, matmul_tf32());
}

}  // namespace tendril::cuda
