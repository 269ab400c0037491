// Draws one row per view: the storage with the view's elements marked, and the view with each element in its place. All
// numbers come from the tensors.
#include <tendril/tendril.h>

#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "pictures.h"
#include "svg.h"

using namespace tendril;

std::string strides() {
  constexpr double kCell = 22, kLeft = 12, kRight = 330;
  const Tensor x = arange(12).view({3, 4});
  const std::vector<std::pair<std::string, Tensor>> views = {
      {"x = arange(12).view({3, 4})", x},
      {"x.t()", x.t()},
      {"x.select(1, 2)", x.select(1, 2)},
      {"x.slice(1, 1, 4, 2)", x.slice(1, 1, 4, 2)},
      {"x.select(0, 1).expand({2, 4})", x.select(0, 1).expand({2, 4})},
  };
  const auto listed = [](const auto& numbers) {
    std::ostringstream text;
    for (const auto number : numbers) text << (text.str().empty() ? "[" : ", ") << number;
    return text.str() + "]";
  };
  Svg svg;
  svg.text(kLeft, 16, "a tensor, and its storage; blue: what it sees");
  svg.text(kRight, 16, "its elements");
  double y = 28;
  for (const auto& [name, view] : views) {
    const Tensor rows = view.dim() == 1 ? view.unsqueeze(0) : view;
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      for (std::int64_t j = 0; j < rows.size(1); ++j) {
        const auto value = rows.select(0, i).select(0, j).item<std::int64_t>();
        seen.insert(value);
        svg.box(kRight + static_cast<double>(j) * kCell, y + static_cast<double>(i) * kCell, kCell, kCell, "#8fb7e3",
                std::to_string(value));
      }
    }
    svg.text(kLeft, y + 12, name, "font-weight=\"bold\"");
    svg.text(kLeft, y + 28,
             "sizes " + listed(view.sizes()) + "  strides " + listed(view.strides()) + "  offset " +
                 std::to_string(view.storage_offset()));
    for (std::int64_t k = 0; k < x.numel(); ++k)
      svg.box(kLeft + static_cast<double>(k) * kCell, y + 36, kCell, kCell, seen.contains(k) ? "#8fb7e3" : "white",
              std::to_string(k));
    y += std::max(36 + kCell, static_cast<double>(rows.size(0)) * kCell) + 18;
  }
  return svg.picture(kRight + 4 * kCell + 12, y - 8);
}
