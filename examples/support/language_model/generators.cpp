#include "generators.h"

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
  const auto states = get_();
  tendril::StateDict dict;
  dict.insert("states", tendril::from_vector(states, {static_cast<std::int64_t>(states.size())}));
  return dict;
}

tendril::LoadReport Generators::load_state_dict(const tendril::StateDict& dict, const tendril::LoadOptions& options) {
  tendril::StateReader reader(dict, "Generators::load_state_dict");
  const Tensor* const saved = reader.tensor("states", {static_cast<std::int64_t>(get_().size())}, tendril::kInt64);
  tendril::LoadReport report = reader.finish(options);
  if (saved != nullptr && !options.check_only) set_(saved->to(tendril::kCPU).to_vector<std::int64_t>());
  return report;
}

}  // namespace language_model
