#include "tendril/tensor/drivers/reduction.h"

namespace tendril::drivers {

Tensor reduce(Reduction op, const Tensor& x, const Dims& dims, bool keepdim) {
  const char* name = name_of(op);
  const Reduced to(x, dims, name);
  const bool needs_elements = fold_of(op) == Reduction::max || fold_of(op) == Reduction::min;
  TENDRIL_CHECK_AS(ShapeError, !needs_elements || to.count > 0, name, ": of no elements of ", x.sizes());
  const DType dtype = reduced_in(op, x.dtype());
  const Tensor input = dtype == kBool && x.dtype() != kBool ? raw::compare(Compare::ne, x, 0) : raw::cast(x, dtype);
  return reduce_to(op, input, to.kept, keepdim ? to.kept : to.squeezed, name);
}

}  // namespace tendril::drivers
