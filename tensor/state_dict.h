#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/scalar.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril {

/// Named tensors in the order in which they were put in: what modules, optimizers and generators are saved as, and what
/// files hold (docs/files.md). A number is a 0-d tensor of int64, float64 or bool on the CPU, so that every format can
/// hold it to the last bit.
///
/// Ownership: a dict refers to tensors, it copies none; `clone` makes a snapshot. Thread-safety: as a std::vector.
class StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;  ///< a path and its tensor

  StateDict() = default;
  StateDict(std::initializer_list<Entry> entries);

  /// Throws Error for a name that is empty or taken, and for an undefined tensor.
  void insert(std::string name, Tensor tensor);
  /// A number, as a 0-d tensor.
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void insert(std::string name, T value) { insert_number(std::move(name), Scalar(value)); }
  /// All of `entries`, under "name.". Throws Error for a name that is taken; those before it are in the dict then.
  void insert(const std::string& name, const StateDict& entries);

  /// Whether there is an entry of this name.
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Tensor* find(std::string_view name) const;  ///< null if there is none
  const Tensor& at(std::string_view name) const;    ///< throws Error if there is none
  /// What `insert` put under "name.", by the rest of their names.
  StateDict section(std::string_view name) const;
  /// Each with elements of its own: later changes are not seen.
  StateDict clone() const;

  /// How many entries.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Whether there is none.
  bool empty() const noexcept { return entries_.empty(); }
  /// Entries (first: the name, second: the tensor), in the order of insertion.
  auto begin() const noexcept { return entries_.begin(); }
  /// Behind the last entry.
  auto end() const noexcept { return entries_.end(); }

 private:
  void insert_number(std::string name, Scalar value);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;  // by name, into entries_
};

struct LoadOptions {
  bool strict = true;       ///< missing and unexpected entries are errors; without, they are only reported
  bool check_only = false;  ///< throws what loading would throw, and changes nothing
};

/// What a `load_state_dict` did without.
struct LoadReport {
  std::vector<std::string> missing;     ///< asked for, but not in the dict
  std::vector<std::string> unexpected;  ///< in the dict, but not asked for
};

/// For whoever writes a load_state_dict: asks a dict for entries one by one, notes what is wrong with them, and says it
/// all in one error. Take what it gives into variables of your own, call `finish`, and only then change anything:
///
///     StateReader reader(dict, "StepLR::load_state_dict");
///     int64_t epoch = epoch_;
///     reader.number("last_epoch", epoch);
///     const LoadReport report = reader.finish(options);
///     if (!options.check_only) epoch_ = epoch;
class StateReader {
 public:
  /// `dict` must outlive it. `op` begins the error.
  StateReader(const StateDict& dict, std::string op) : dict_(dict), op_(std::move(op)) {}

  /// The entry, if it is there and has these sizes and a dtype that converts to `dtype` (any, but a floating one to an
  /// integer or bool, and one that is not bool to bool); else null, and what is wrong is noted. Its device may be any.
  const Tensor* tensor(const std::string& name, const Dims& sizes, DType dtype);
  /// The entry's value, exactly; where it is missing or something else, `value` stays as it is, and that is noted.
  template <class T>
  requires std::integral<T> || std::floating_point<T>
  void number(const std::string& name, T& value) {
    if constexpr (std::same_as<T, bool>) {
      read_bool(name, value);
    } else if constexpr (std::integral<T>) {
      auto wide = static_cast<int64_t>(value);
      if (read_integer(name, wide)) {
        if (std::in_range<T>(wide)) {
          value = static_cast<T>(wide);
        } else {
          refuse(name, "got " + std::to_string(wide) + ", which is out of range");
        }
      }
    } else {
      double wide = static_cast<double>(value);
      if (read_floating(name, wide)) {
        if (std::isfinite(static_cast<T>(wide)) || !std::isfinite(wide)) {
          value = static_cast<T>(wide);
        } else {
          refuse(name, "got a number that is out of range");
        }
      }
    }
  }
  /// As number, of how often something has happened: from 0 to 2^53, which nobody has counted to.
  void count(const std::string& name, int64_t& value);
  /// Whether the dict has it. It then counts as expected.
  bool has(const std::string& name);
  /// Something else that is wrong with an entry: "got ..., expected ...".
  void refuse(const std::string& name, const std::string& problem) { problems_.push_back(name + ": " + problem); }

  /// Throws Error that lists everything that was noted, if there is anything; missing and unexpected entries count
  /// under `strict`.
  LoadReport finish(const LoadOptions& options);

 private:
  const Tensor* take(const std::string& name);
  bool one_number(const std::string& name, Scalar& value);
  void read_bool(const std::string& name, bool& value);
  bool read_integer(const std::string& name, int64_t& value);
  bool read_floating(const std::string& name, double& value);

  const StateDict& dict_;
  const std::string op_;
  std::unordered_set<const Tensor*> asked_;  // entries of dict_
  std::vector<std::string> missing_, problems_;
};

}  // namespace tendril

TENDRIL_API_END
