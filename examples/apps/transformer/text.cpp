#include "text.h"

#include <tendril/autograd/ops/join.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/random.h>

#include <string>
#include <utility>
#include <vector>

namespace transformer {
namespace {

std::string make_sums(std::int64_t seed) {
  constexpr int kBelow = 50;
  std::vector<std::pair<int, int>> pairs;
  for (int a = 0; a < kBelow; ++a)
    for (int b = 0; b < kBelow; ++b) pairs.emplace_back(a, b);
  tendril::Generator random(static_cast<std::uint64_t>(seed));
  for (std::size_t i = pairs.size(); i > 1; --i) std::swap(pairs[i - 1], pairs[random.below(i)]);
  std::string text;
  for (const auto& [a, b] : pairs)
    text += std::to_string(a) + "+" + std::to_string(b) + "=" + std::to_string(a + b) + "\n";
  return text;
}

}  // namespace

Text load(const Options& options) {
  const std::string text = options.text.empty() ? make_sums(options.seed) : tendril::data::load_text(options.text);
  Text loaded;
  loaded.characters = tendril::data::character_vocabulary(text);
  const tendril::Tensor ids = tendril::data::character_ids(text, loaded.characters);
  const std::int64_t kept = ids.numel() / 10;
  if (kept <= options.context)
    throw tendril::Error("the text has " + std::to_string(ids.numel()) +
                         " characters; a tenth of it must be longer than the context, " +
                         std::to_string(options.context));
  loaded.train = ids.slice(0, 0, ids.numel() - kept);
  loaded.kept = ids.slice(0, ids.numel() - kept, ids.numel());
  return loaded;
}

Pieces draw_pieces(const tendril::Tensor& ids, std::int64_t count, std::int64_t context, tendril::Generator& random) {
  std::vector<tendril::Tensor> x, y;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto start = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(ids.numel() - context)));
    x.push_back(ids.slice(0, start, start + context));
    y.push_back(ids.slice(0, start + 1, start + context + 1));
  }
  return {tendril::stack(x), tendril::stack(y)};
}

}  // namespace transformer
