#include "tendril/nn/dropout.h"

#include <sstream>

#include "tendril/autograd/ops/dropout.h"

namespace tendril::nn {

Dropout::Dropout(double p, Generator& generator) : p_(p), generator_(&generator) {
  TENDRIL_CHECK(p >= 0 && p <= 1, "Dropout: p: got ", p, ", expected a probability in [0, 1]");
}

Tensor Dropout::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "Dropout: x is an undefined tensor");
  return is_training() && p_ > 0 ? dropout(x, p_, *generator_) : x;
}

std::string Dropout::extra_repr() const {
  std::ostringstream out;
  out << "p=" << p_;
  return out.str();
}

}  // namespace tendril::nn
