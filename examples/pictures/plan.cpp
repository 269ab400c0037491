// Draws one row per operation: its operands' dimensions, and the dimensions that kernels walk over. All numbers come
// from the tensors and the library's own plan.
#include <tendril/tendril.h>
#include <tendril/tensor/detail/plan.h>
#include <tendril/tensor/raw.h>

#include <string>
#include <vector>

#include "pictures.h"
#include "svg.h"

using namespace tendril;

std::string plans() {
  constexpr double kBox = 58, kLeft = 12, kRight = 380, kLine = 20;
  struct Shown {
    std::string name;
    Tensor x, y;
  };
  const Tensor x = ones({4, 3, 2}), bias = ones({2}), image = ones({2, 3, 4, 4});
  const Tensor pixels = image.contiguous(MemoryFormat::channels_last);
  const std::vector<Shown> all = {
      {"x + x, both [4, 3, 2]", x, x},
      {"x + bias, [4, 3, 2] and [2]", x, bias.expand({4, 3, 2})},
      {"x + y.transpose(0, 2), y is [2, 3, 4]", x, ones({2, 3, 4}).transpose(0, 2)},
      {"two images [2, 3, 4, 4], channels last", pixels, pixels},
      {"... and one of them row by row", pixels, image},
  };
  Svg svg;
  svg.text(kLeft, 16, "dimensions of the operands: size, strides of either");
  svg.text(kRight, 16, "as kernels walk, the fastest first");
  double y = 28;
  const auto draw = [&](double at, const std::string& color, std::int64_t size, std::int64_t first,
                        std::int64_t second) {
    svg.box(at, y + 20, kBox - 4, kLine, color, std::to_string(size));
    svg.box(at, y + 20 + kLine, kBox - 4, kLine, "white", std::to_string(first) + ", " + std::to_string(second));
  };
  for (const Shown& one : all) {
    svg.text(kLeft, y + 12, one.name, "font-weight=\"bold\"");
    for (int d = 0; d < one.x.dim(); ++d)
      draw(kLeft + d * kBox, "#c6dbf2", one.x.size(d), one.x.stride(d), one.y.stride(d));
    const View a = raw::view_of(one.x), b = raw::view_of(one.y);
    Plan<2> plan = plan_of<2>({&a, &b}, {1, 1});
    for (int d = 0; d < plan.ndim; ++d)
      draw(kRight + d * kBox, "#8fb7e3", plan.size(d), plan.stride(0, d), plan.stride(1, d));
    y += 3 * kLine + 24;
  }
  return svg.picture(kRight + 4 * kBox + 8, y - 4);
}
