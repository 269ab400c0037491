// Each gradient of each node that the samples run is changed in turn, and some sample must notice.
#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tests/autograd/samples/samples.h"
#include "tests/mutants/change.h"

namespace {

using tendril::samples::OpSample;

enum class Kind { scaled, shifted, detached };
constexpr std::array kKinds = {std::pair{Kind::scaled, "times 1.01"}, std::pair{Kind::shifted, "plus 1"},
                               std::pair{Kind::detached, "cut off from the graph"}};

using Place = std::pair<std::string, std::size_t>;  // node, input

std::set<Place> seen;
std::optional<Place> changed;
Kind kind;

/// The gradient is 0 everywhere: scaling it changes nothing, and it has no derivative to lose.
bool is_always_zero(const Place& place) {
  static const std::set<std::string> zero = {"SignBackward",  "FloorBackward", "CeilBackward",        "TruncBackward",
                                             "RoundBackward", "FillBackward",  "Floor_divideBackward"};
  return zero.contains(place.first) || place == Place{"CopyBackward", 0};
}

std::set<std::string> nodes_of_table() {
  std::set<std::string> names;
  const auto add = [&](std::string op) {
    op[0] = static_cast<char>(std::toupper(op[0]));
    names.insert(op + "Backward");
  };
#define TENDRIL_UNARY(op, ...) add(#op);
#define TENDRIL_BINARY(op, ...) add(#op);
#define TENDRIL_INTEGRAL(...)
#include "tendril/tensor/pointwise.def"
#define TENDRIL_REDUCTION(op, ...) add(#op);
#include "tendril/tensor/reductions.def"
  return names;
}

}  // namespace

void tendril::mutants::change(const autograd::Node& node, std::span<Tensor> input_grads) {
  for (std::size_t i = 0; i < input_grads.size(); ++i) {
    Tensor& gradient = input_grads[i];
    if (!gradient.defined() || gradient.numel() == 0) continue;
    if (!changed) {
      seen.emplace(node.name(), i);
    } else if (i == changed->second && changed->first == node.name()) {
      gradient = kind == Kind::scaled ? gradient * 1.01 : kind == Kind::shifted ? gradient + 1.0 : gradient.detach();
    }
  }
}

int main() {
  std::vector<OpSample> samples;
  for (const auto& family : tendril::samples::families()) {
    for (const OpSample& sample : family.samples()) samples.push_back(sample);
  }
  std::map<Place, std::vector<std::size_t>> places;  // and the samples that come by
  for (std::size_t i = 0; i < samples.size(); ++i) {
    seen.clear();
    nodes_of(samples[i]);
    for (const Place& place : seen) places[place].push_back(i);
  }

  int survived = 0, found = 0;
  for (const std::string& name : nodes_of_table()) {
    if (std::none_of(places.begin(), places.end(), [&](const auto& place) { return place.first.first == name; })) {
      std::cerr << "no sample runs " << name << "\n";
      ++survived;
    }
  }
  for (const auto& [place, by] : places) {
    for (const auto& [which, title] : kKinds) {
      if (is_always_zero(place) && which != Kind::shifted) continue;
      changed = place;
      kind = which;
      const bool noticed = std::any_of(by.begin(), by.end(), [&](std::size_t i) { return !check(samples[i]).empty(); });
      changed.reset();
      ++(noticed ? found : survived);
      if (!noticed)
        std::cerr << "not found: gradient " << place.second << " of " << place.first << " " << title << "\n";
    }
  }
  std::cout << found << " wrong gradients found, " << survived << " not\n";
  return survived == 0 ? 0 : 1;
}
