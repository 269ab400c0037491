#include "generators.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace language_model {

std::vector<std::int64_t> generator_states(nn::Module& module, const std::vector<std::int64_t>& next) {
  std::vector<std::int64_t> states;
  for (nn::Module* below : module.modules()) {
    auto* const part = dynamic_cast<Part*>(below);
    if (part == nullptr) continue;
    const auto [seed, offset] = part->generator.state();
    if (!next.empty())
      part->generator.set_state(
          {static_cast<std::uint64_t>(next.at(states.size())), static_cast<std::uint64_t>(next.at(states.size() + 1))});
    states.push_back(static_cast<std::int64_t>(seed));
    states.push_back(static_cast<std::int64_t>(offset));
  }
  return states;
}

StateDict Generators::state_dict() const {
  States all;
  for (const auto& states_of : of_) std::ranges::copy(states_of({}), std::back_inserter(all));
  StateDict dict;
  dict.insert("states", from_vector(all, {static_cast<std::int64_t>(all.size())}));
  return dict;
}

void Generators::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  StateReader reader(dict, "Generators::load_state_dict");
  const Tensor* const saved = reader.tensor("states", state_dict().at("states").sizes(), kInt64);
  reader.finish(options);
  if (saved == nullptr || options.check_only) return;
  const States states = saved->to(kCPU).to_vector<std::int64_t>();
  auto begin = states.begin();
  for (const auto& states_of : of_) {
    const auto end = begin + static_cast<std::ptrdiff_t>(states_of({}).size());
    states_of({begin, end});
    begin = end;
  }
}

}  // namespace language_model
