#include "tendril/autograd/history.h"
#include "tendril/tensor/raw.h"

namespace tendril {

namespace {

using autograd::NodeOf;
using autograd::track;

struct CloneBackward : NodeOf<CloneBackward, 1> {
  static constexpr const char* kName = "CloneBackward";

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g; }
};

struct CastBackward : NodeOf<CastBackward, 1> {
  static constexpr const char* kName = "CastBackward";
  DType dtype = kFloat32;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.to(dtype); }
};

struct ToDeviceBackward : NodeOf<ToDeviceBackward, 1> {
  static constexpr const char* kName = "ToDeviceBackward";
  Device device = kCPU;

  void backward(const Tensor& g, std::span<Tensor> dx) { dx[0] = g.to(device); }
};

}  // namespace

Tensor Tensor::clone() const {
  detail::check_defined(*this, "clone");
  Tensor out = raw::empty_in_format_of(*this);
  raw::copy_(out, *this);
  track<CloneBackward>(out, *this);
  return out;
}

Tensor Tensor::contiguous() const {
  detail::check_defined(*this, "contiguous");
  return contiguous(MemoryFormat::contiguous);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  Tensor out = raw::contiguous(*this, format);
  if (!out.is_same(*this)) track<CloneBackward>(out, *this);
  return out;
}

Tensor Tensor::to(MemoryFormat format) const { return contiguous(format); }

Tensor Tensor::to(DType wanted) const {
  detail::check_defined(*this, "to");
  if (dtype() == wanted) return *this;
  Tensor out = raw::cast(*this, wanted);
  if (auto* n = track<CastBackward>(out, *this)) n->dtype = dtype();
  return out;
}

Tensor Tensor::to(Device wanted, bool non_blocking) const {
  detail::check_defined(*this, "to");
  if (device() == wanted) return *this;
  Tensor out = raw::to(*this, wanted, non_blocking);
  if (auto* n = track<ToDeviceBackward>(out, *this)) n->device = device();
  return out;
}

}  // namespace tendril
