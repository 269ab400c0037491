#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tendril::rpc {
struct LaunchOptions;
}

/// Code that the examples share.
namespace examples {

/// An error in the command line.
struct FlagError : std::invalid_argument {
  FlagError(const std::string& flag, const std::string& message) : std::invalid_argument(flag + ": " + message) {}
};

template <class T>
struct Range {
  T low, high;
  bool below = false;  ///< `high` itself is out of range
};

/// An output that a flag names. `Flags::parse` checks before the program starts that it can be written, and leaves no
/// trace of the check.
struct Output {
  std::vector<std::string> endings = {""};  ///< output files: name + ending
  bool makes_folders = false;               ///< whether missing folders are created; otherwise the folder must exist
  bool replaced = false;  ///< written as a new file that replaces the old one: needs a writable folder
  int writer = 0;         ///< rank that writes the output, if each process is started separately
};

/// The flags of a program. A wrapper over CLI11 that keeps CLI11's headers, which are slow to compile, out of the
/// programs.
///
/// A value comes from the command line, else from the environment (PROGRAM_FLAG_NAME), else from the file given by
/// --config (one "flag-name = value" per line), else from the variable's initial value. Flags may be spelled with - or
/// _. The variables must outlive the object.
class Flags {
 public:
  Flags(const std::string& program, const std::string& description);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  void add(const std::string& flag, int& value, Range<std::int64_t> range, const std::string& help);
  void add(const std::string& flag, std::int64_t& value, Range<std::int64_t> range, const std::string& help);
  void add(const std::string& flag, double& value, Range<double> range, const std::string& help);
  void add(const std::string& flag, std::vector<std::int64_t>& values, Range<std::int64_t> range,
           const std::string& help);
  void add(const std::string& flag, std::string& value, const std::string& help);
  void add(const std::string& flag, bool& value, const std::string& help);
  /// Adds a flag that names an output; an empty name writes nothing.
  void add_output(const std::string& flag, std::string& value, const std::string& help, const Output& output = {});
  /// As above, with properties that `as` returns after all flags are read.
  void add_output(const std::string& flag, std::string& value, const std::string& help, std::function<Output()> as);
  /// Takes one of `choices`.
  void add(const std::string& flag, std::string& value, const std::vector<std::string>& choices,
           const std::string& help);

  /// Takes several of `choices`. A name without dashes makes it a positional argument.
  void add(const std::string& flag, std::vector<std::string>& values, const std::vector<std::string>& choices,
           const std::string& help);

  /// --device: cpu, cuda or cuda:N. `parse` checks that this machine has the device, before any worker starts.
  void add_device(std::string& device, const std::string& help);
  /// --rank, --master-addr, --master-port, for processes that are started manually. A launcher makes them unnecessary.
  void add_launch(tendril::rpc::LaunchOptions& options);

  // Flags that several programs share, with the same name and range in each.
  void add_world_size(int& world_size, int most, const std::string& help) {
    add("--world-size", world_size, {1, most}, help);
  }
  void add_seed(std::int64_t& seed) {
    add("--seed", seed, {0, std::int64_t{1} << 40}, "Determines all random numbers");
  }
  void add_epochs(std::int64_t& epochs, const std::string& help) { add("--epochs", epochs, {1, kMany}, help); }
  void add_batch_size(std::int64_t& batch_size, const std::string& help) {
    add("--batch-size,--batch", batch_size, {1, kMany}, help);
  }
  void add_learning_rate(double& lr, const std::string& help) { add("--lr", lr, {0, 1e6}, help); }
  void add_clip(double& clip) {
    add("--clip", clip, {0, 1e9}, "Maximum gradient norm over all parameters; 0: no clipping");
  }
  void add_temperature(double& temperature, const std::string& help) {
    add("--temperature", temperature, {0, 100}, help);
  }
  void add_dropout(double& dropout, Range<double> range, const std::string& help) {
    add("--dropout", dropout, range, help);
  }
  /// Training data: a file or a folder.
  void add_data(std::string& data, const std::string& help) { add("--data", data, help); }
  /// Model to train: one of `choices`.
  void add_model(std::string& model, const std::vector<std::string>& choices, const std::string& help) {
    add("--model", model, choices, help);
  }
  void add_workers(int& workers, Range<std::int64_t> range, const std::string& help) {
    add("--workers", workers, range, help);
  }
  /// A small run; `finish` derives other flags from it.
  void add_tiny(bool& tiny, const std::string& help) { add("--tiny", tiny, help); }
  template <class Int>
  void add_log_interval(Int& interval, Range<std::int64_t> range, const std::string& help) {
    add("--log-interval", interval, range, help);
  }
  /// --graph, the output of graph_picture.h for the first `what`. `writer` returns the rank that writes it, after all
  /// flags are read; 0 by default.
  void add_graph(std::string& graph, const std::string& what, std::function<int()> writer = {});
  /// --checkpoint, a file or the output that `as` describes after all flags are read, and --resume, "no" or "auto".
  /// `written` says in the help text when the checkpoint is written.
  void add_checkpoint(std::string& checkpoint, bool& resume, const std::string& written,
                      std::function<Output()> as = {});
  /// --logdir. `writer` returns the rank that writes it, after all flags are read; 0 by default.
  void add_logdir(std::string& logdir, std::function<int()> writer = {});
  /// Rejects a command line that has both flags.
  void exclude(const std::string& one, const std::string& other);

  /// Fills the variables, then calls `finish`, which may check them together and throw FlagError. Returns std::nullopt
  /// if the program should continue; otherwise prints the help or the error and returns the exit status.
  std::optional<int> parse(int argc, const char* const* argv, const std::function<void()>& finish = {});

  /// `parse` for a program's parse_options: returns the options, or std::nullopt with the exit status in `exit_status`.
  template <class Options>
  std::optional<Options> parse(int argc, const char* const* argv, const Options& options, int& exit_status,
                               const std::function<void()>& finish = {}) {
    const auto status = parse(argc, argv, finish);
    exit_status = status.value_or(0);
    return status ? std::nullopt : std::optional(options);
  }

  /// Whether the flag was set, by any source. Valid from `finish` on.
  bool given(const std::string& flag) const;
  /// For use in `finish`: sets the variable of a flag that was not given to the value that another flag implies, also
  /// in `effective`.
  template <class T, class V>
  void imply(const std::string& flag, T& variable, const V& value) {
    variable = value;
    std::ostringstream text;
    text << variable;
    show(flag, text.str());
  }
  /// For use in `finish`: leaves a flag that was not given out of `effective`, because it conflicts with a given one.
  void omit(const std::string& flag);
  /// All flags with their values, in the format of --config. Valid from `finish` on.
  std::string effective();

 private:
  static constexpr std::int64_t kMany = 1'000'000'000;
  void show(const std::string& flag, const std::string& value);
  void check(const std::string& flag, const std::string& name, const Output& output) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace examples
