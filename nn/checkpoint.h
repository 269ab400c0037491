#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// All that a training run goes on from, in one file. docs/files.md has an example.
namespace tendril::nn {

/// A module, an optimizer, a scheduler, a generator, ...
template <class T>
concept Stateful = requires(const T& saved, T& loaded, const StateDict& dict, const LoadOptions& options) {
  { saved.state_dict() } -> std::convertible_to<StateDict>;
  loaded.load_state_dict(dict, options);
};

/// A name and what is saved and loaded under it: a Stateful, or a number of the program's own (a counter). It refers to
/// that, which must live when it is used. Throws Error for a name that is empty or has a dot.
class CheckpointPart {
 public:
  template <Stateful T>
  CheckpointPart(std::string name, T& object) : CheckpointPart(std::move(name), false) {
    save_ = [&object] { return object.state_dict(); };
    load_ = [&object](const StateDict& dict, const LoadOptions& options) { object.load_state_dict(dict, options); };
  }
  template <class T>
  requires std::integral<T> || std::floating_point<T> CheckpointPart(std::string name, T& number)
      : CheckpointPart(std::move(name), true) {
    static_assert(!std::is_const_v<T>, "a part is a variable that loading changes: this one is const");
    save_ = [&number, key = name_] {
      StateDict dict;
      dict.insert(key, number);
      return dict;
    };
    load_ = [&number, key = name_](const StateDict& dict, const LoadOptions& options) {
      StateReader reader(dict, "a number");
      T read = number;
      reader.number(key, read);
      reader.finish(options);
      if (!options.check_only) number = read;
    };
  }
  /// Refuses a value that no variable of the program's holds: what is loaded would be lost.
  template <class T>
  requires std::integral<T> || std::floating_point<T> CheckpointPart(std::string, T&&)  // a temporary
  {
    static_assert(!std::is_same_v<T, T>, "a part is a variable that loading changes: give this number a name");
  }

  /// Under which it is in the file.
  const std::string& name() const noexcept { return name_; }
  /// Adds what it has to say, under its name.
  void save(StateDict& into) const;
  /// From all of a checkpoint.
  void load(const StateDict& checkpoint, const LoadOptions& options) const;
  bool owns(const std::string& entry) const;  ///< whether it is the entry's part

 private:
  CheckpointPart(std::string name, bool is_number);

  std::string name_;
  bool is_number_;
  std::function<StateDict()> save_;
  std::function<void(const StateDict&, const LoadOptions&)> load_;
};

using CheckpointParts = std::vector<CheckpointPart>;  ///< what a run needs to go on

/// Writes all parts, as they are now, to a safetensors file with names like "model.conv1.weight". Atomic: a process
/// that is killed, or a disk that is full, leaves the checkpoint that was there before. It is on the disk on return.
/// Throws Error for two parts of one name, and as save_safetensors. Nobody may change the parts meanwhile.
void save_checkpoint(const std::filesystem::path& file, const CheckpointParts& parts);

/// Gives every part what was saved under its name. A run that does so is bit-equal to the one that saved, if the parts
/// are all that it depends on. Throws Error for a file that is no checkpoint, and one that lists all that does not fit:
/// parts that only one side has, and what each part's load_state_dict says. Nothing has changed then.
void load_checkpoint(const std::filesystem::path& file, const CheckpointParts& parts);

}  // namespace tendril::nn

TENDRIL_API_END
