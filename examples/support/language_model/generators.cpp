#include "generators.h"

#include <tendril/tensor/creation.h>

#include <cstddef>
#include <numeric>

namespace language_model {

std::vector<std::int64_t> generator_states(nn::Module& module) {
  std::vector<std::int64_t> states;
  for (nn::Module* below : module.modules()) {
    if (const auto* part = dynamic_cast<const Part*>(below)) {
      const auto state = part->generator.state();
      states.push_back(static_cast<std::int64_t>(state.seed));
      states.push_back(static_cast<std::int64_t>(state.offset));
    }
  }
  return states;
}

void set_generator_states(nn::Module& module, const std::vector<std::int64_t>& states) {
  std::size_t at = 0;
  for (nn::Module* below : module.modules()) {
    if (auto* part = dynamic_cast<Part*>(below)) {
      part->generator.set_state(
          {static_cast<std::uint64_t>(states.at(at)), static_cast<std::uint64_t>(states.at(at + 1))});
      at += 2;
    }
  }
}

tendril::StateDict Generators::state_dict() const {
  std::vector<std::int64_t> all;
  for (const OfModule& one : of_) {
    const auto states = one.get();
    all.insert(all.end(), states.begin(), states.end());
  }
  tendril::StateDict dict;
  dict.insert("states", tendril::from_vector(all, {static_cast<std::int64_t>(all.size())}));
  return dict;
}

tendril::LoadReport Generators::load_state_dict(const tendril::StateDict& dict, const tendril::LoadOptions& options) {
  std::vector<std::size_t> counts;
  for (const OfModule& one : of_) counts.push_back(one.get().size());
  const auto count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  tendril::StateReader reader(dict, "Generators::load_state_dict");
  const Tensor* const saved = reader.tensor("states", {static_cast<std::int64_t>(count)}, tendril::kInt64);
  tendril::LoadReport report = reader.finish(options);
  if (saved == nullptr || options.check_only) return report;
  const auto states = saved->to(tendril::kCPU).to_vector<std::int64_t>();
  auto at = states.begin();
  for (std::size_t i = 0; i < of_.size(); ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(counts[i]);
    of_[i].set({at, end});
    at = end;
  }
  return report;
}

}  // namespace language_model
