#include "tendril/tensor/cuda/kernels/conv.h"

#include <optional>

#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/cudnn/graph.h"
#include "tendril/tensor/cuda/math_mode.h"
#include "tendril/tensor/cuda/runtime/workspace.h"

namespace tendril::cuda {

const char* name_of(ConvMap map) noexcept {
  switch (map) {
    case ConvMap::out:
      return "conv2d";
    case ConvMap::data:
      return "conv2d_data";
    default:
      return "conv2d_filter";
  }
}

namespace {

/// An operand in one order or the other: where it lies, if it lies so, else a copy in scratch memory.
class Ordered {
 public:
  Ordered(const View& given, bool channels_last, bool read) : given_(given), view_(given) {
    const int64_t* size = given.sizes;
    const int64_t rows[] = {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
    const int64_t last[] = {rows[0], 1, size[3] * size[1], size[1]};
    bool lies_so = true;
    for (int d = 0; d < 4; ++d) {
      strides_[d] = (channels_last ? last : rows)[d];
      lies_so = lies_so && (size[d] == 1 || given.strides[d] == strides_[d]);
    }
    if (lies_so) return;
    memory_.emplace(static_cast<std::size_t>(given.numel) * size_of(given.dtype));
    view_ = {memory_->data(), given.sizes, strides_, given.numel, 4, given.dtype, !channels_last};
    if (read) require(table.copy, "copy", table)(view_, given_);
  }
  Ordered(const Ordered&) = delete;
  Ordered& operator=(const Ordered&) = delete;

  const View& view() const { return view_; }
  void written() const {
    if (memory_) require(table.copy, "copy", table)(given_, view_);
  }

 private:
  View given_, view_;
  int64_t strides_[4];
  std::optional<Workspace> memory_;
};

/// f(conv with all operands in one order), which says whether it is done.
template <class F>
bool in_order(const Conv& conv, bool channels_last, F f) {
  const Ordered x(conv.x, channels_last, conv.map != ConvMap::data),
      weight(conv.weight, channels_last, conv.map != ConvMap::filter),
      out(conv.out, channels_last, conv.map != ConvMap::out);
  if (!f(Conv{conv.map, x.view(), weight.view(), out.view(), conv.geometry, channels_last})) return false;
  for (const Ordered* operand : {&x, &weight, &out}) operand->written();
  return true;
}

/// A bias, one number a channel, and a relu, of what is there.
void finish(const View& out, const View* bias, bool relu) {
  if (bias) {
    const int64_t strides[] = {0, bias->numel == 1 ? 0 : bias->strides[0], 0, 0};
    std::optional<Workspace> memory;
    View each{bias->data, out.sizes, strides, out.numel, 4, bias->dtype, false};
    View there = *bias;
    if (bias->dtype != out.dtype) {
      there.data = memory.emplace(static_cast<std::size_t>(bias->numel) * size_of(out.dtype)).data();
      there.dtype = each.dtype = out.dtype;
      require(table.copy, "copy", table)(there, *bias);
      each.data = there.data;
    }
    require(table.binary, "add", table)(Binary::add, out, out, each);
  }
  if (relu) require(table.unary, "relu", table)(Unary::relu, out, out, 0);
}

void convolve(const Conv& conv, const View* bias = nullptr, bool relu = false) {
  const View& result = conv.result();
  const char* op = name_of(conv.map);
  TENDRIL_CHECK_AS(DTypeError, is_floating(result.dtype), op, ": no cuda kernel for ", result.dtype);
  if (result.numel == 0) return;
  if (conv.x.numel == 0 || conv.weight.numel == 0 || conv.out.numel == 0) {  // sums of nothing
    require(table.fill, "fill", table)(result, Scalar(0));
    return finish(result, bias, relu);
  }
  // What cuDNN does not serve channels-last, it may serve in rows; the products are always of rows.
  const bool last = !conv.x.contiguous || !conv.out.contiguous;
  const auto by_graph = [&](const Conv& ordered) { return convolve_by_graph(ordered, bias, relu); };
  const bool as_graph = bias || relu || (time_plans() && conv.map == ConvMap::out);
  if (cudnn_enabled() && as_graph && in_order(conv, last, by_graph)) return detail::count_convolution(true, true);
  const bool done = cudnn_enabled() &&
                    ((last && in_order(conv, true, convolve_by_cudnn)) || in_order(conv, false, convolve_by_cudnn));
  if (!done) {
    in_order(conv, false, [](const Conv& rows) {
      convolve_by_products(rows);
      return true;
    });
  }
  detail::count_convolution(done);
  finish(result, bias, relu);
}

}  // namespace

void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& geometry) {
  convolve({ConvMap::out, x, weight, out, geometry});
}
void conv2d_relu(const View& out, const View& x, const View& weight, const View* bias, bool relu,
                 const ConvGeometry& geometry, tendril::detail::PreparedForms*) {
  convolve({ConvMap::out, x, weight, out, geometry}, bias, relu);
}
void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry,
                 tendril::detail::PreparedForms*) {
  convolve({ConvMap::data, x, weight, out, geometry});
}
void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry) {
  convolve({ConvMap::filter, x, weight, out, geometry});
}

}  // namespace tendril::cuda
