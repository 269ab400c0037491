#include "tendril/nn/dropout.h"

#include <sstream>

#include "tendril/autograd/ops/dropout.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {

Dropout::Dropout(double p, Generator& generator) : p_(p), generator_(&generator) {
  TENDRIL_CHECK(p >= 0 && p <= 1, "Dropout: p: got ", p, ", expected a probability in [0, 1]");
}

Tensor Dropout::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), "Dropout: x is an undefined tensor");
  return is_training() && p_ > 0 ? dropout(x, p_, *generator_) : x;
}

namespace {

std::string said(double p) {
  std::ostringstream out;
  out << "p=" << p;
  return out.str();
}

}  // namespace

std::string Dropout::extra_repr() const { return said(p_); }

ChannelDropout::ChannelDropout(const char* op, int dims, double p, Generator& generator)
    : op_(op), dims_(dims), p_(p), generator_(&generator) {
  TENDRIL_CHECK(p >= 0 && p <= 1, op, ": p: got ", p, ", expected a probability in [0, 1]");
}

ChannelDropout::ChannelDropout(ChannelDropout&& from, const std::type_info& type, Extent object)
    : Module(std::move(from), type, object),
      op_(from.op_),
      dims_(from.dims_),
      p_(from.p_),
      generator_(from.generator_) {}

Tensor ChannelDropout::forward(const Tensor& x) const {
  TENDRIL_CHECK(x.defined(), op_, ": x is an undefined tensor");
  TENDRIL_CHECK_AS(ShapeError, x.dim() == dims_, op_, ": x has shape ", x.sizes(), ", expected ", dims_,
                   " dimensions, [batch, channels, ...]");
  if (!is_training() || p_ == 0) return x;
  Dims sizes = Dims::filled(dims_, 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return x * dropout(raw::full(sizes, 1, x.dtype(), x.device()), p_, *generator_);
}

std::string ChannelDropout::extra_repr() const { return said(p_); }

Dropout1d::Dropout1d(double p, Generator& generator) : Movable("Dropout1d", 3, p, generator) {}
Dropout2d::Dropout2d(double p, Generator& generator) : Movable("Dropout2d", 4, p, generator) {}
Dropout3d::Dropout3d(double p, Generator& generator) : Movable("Dropout3d", 5, p, generator) {}

}  // namespace tendril::nn
