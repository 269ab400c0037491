#include "tendril/nn/checkpoint.h"

#include <algorithm>
#include <set>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/safetensors.h"

namespace tendril::nn {
namespace {

const FileMetadata kFormat = {{"format", "tendril.checkpoint"}, {"version", "1"}};

void check_names(const char* op, const CheckpointParts& parts) {
  std::set<std::string> names;
  for (const CheckpointPart& part : parts) {
    TENDRIL_CHECK(names.insert(part.name()).second, op, ": two parts have the name '", part.name(), "'");
  }
}

std::string part_of(const std::string& entry) { return entry.substr(0, entry.find('.')); }

}  // namespace

CheckpointPart::CheckpointPart(std::string name, bool is_number) : name_(std::move(name)), is_number_(is_number) {
  TENDRIL_CHECK(!name_.empty() && name_.find('.') == std::string::npos, "CheckpointPart: name: got '", name_,
                "', expected one that is not empty and has no dot");
}

bool CheckpointPart::owns(const std::string& entry) const {
  return is_number_ ? entry == name_ : entry.starts_with(name_ + ".");
}

void CheckpointPart::save(StateDict& into) const {
  const StateDict dict = save_();
  if (!is_number_) return into.insert(name_, dict);
  for (const auto& [key, value] : dict) into.insert(key, value);
}

void CheckpointPart::load(const StateDict& checkpoint, const LoadOptions& options) const {
  if (!is_number_) return load_(checkpoint.section(name_), options);
  StateDict number;
  if (const Tensor* const found = checkpoint.find(name_)) number.insert(name_, *found);
  load_(number, options);
}

void save_checkpoint(const std::filesystem::path& file, const CheckpointParts& parts) {
  check_names("save_checkpoint", parts);
  StateDict dict;
  for (const CheckpointPart& part : parts) part.save(dict);
  save_safetensors(dict, file, {.metadata = kFormat});
}

void load_checkpoint(const std::filesystem::path& file, const CheckpointParts& parts) {
  const char* const op = "load_checkpoint";
  check_names(op, parts);
  FileMetadata metadata;
  const StateDict checkpoint = load_safetensors(file, &metadata);
  TENDRIL_CHECK(metadata["format"] == kFormat.at("format"), op, ": ", file,
                " is no checkpoint; load_safetensors reads files of tensors alone");
  TENDRIL_CHECK(metadata["version"] == kFormat.at("version"), op, ": ", file, " has version '", metadata["version"],
                "', expected ", kFormat.at("version"));
  std::string problems;
  std::set<std::string> unexpected;
  for (const auto& [entry, tensor] : checkpoint) {
    const auto owns = [&key = entry](const CheckpointPart& part) { return part.owns(key); };
    if (std::ranges::none_of(parts, owns)) unexpected.insert(part_of(entry));
  }
  for (const std::string& name : unexpected) problems += "\nhas a part '" + name + "', which is not asked for";
  if (!unexpected.empty()) problems += "\n(one part alone: load_safetensors(file).section(name))";
  for (const CheckpointPart& part : parts) {
    try {
      part.load(checkpoint, {.check_only = true});
    } catch (const Error& error) {
      problems += "\n'" + part.name() + "': " + error.what();
    }
  }
  TENDRIL_CHECK(problems.empty(), op, ": ", file, " does not fit, nothing was loaded", problems);
  for (const CheckpointPart& part : parts) part.load(checkpoint, {});
}

}  // namespace tendril::nn
