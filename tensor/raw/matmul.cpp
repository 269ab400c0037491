#include "tendril/tensor/raw.h"

namespace tendril::raw {

Tensor matmul(const Tensor& a, const Tensor& b) {
  detail::check_defined(a, "matmul", "a");
  detail::check_defined(b, "matmul", "b");
  TENDRIL_CHECK(a.device() == b.device(), "matmul: b is on ", b.device(), ", expected ", a.device(),
                ", as the first operand");
  TENDRIL_CHECK_AS(DTypeError, a.dtype() == b.dtype(), "matmul: dtypes ", a.dtype(), " and ", b.dtype(), " differ");
  const int ndim = a.dim();
  TENDRIL_CHECK_AS(ShapeError,
                   (ndim == 2 || ndim == 3) && b.dim() == ndim && a.sizes()[ndim - 1] == b.sizes()[ndim - 2] &&
                       (ndim == 2 || a.sizes()[0] == b.sizes()[0]),
                   "matmul: shapes ", a.sizes(), " and ", b.sizes(), " cannot be multiplied");
  Dims sizes = a.sizes();
  sizes[ndim - 1] = b.sizes()[ndim - 1];
  Tensor out = empty(sizes, a.dtype(), a.device());
  const DeviceKernels table = kernels(out.device());
  require(table->matmul, "matmul", *table)(view_of(out), view_of(a), view_of(b));
  return out;
}

}  // namespace tendril::raw
