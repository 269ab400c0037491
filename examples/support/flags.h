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

/// What the examples share.
namespace examples {

/// What is wrong with a command line.
struct FlagError : std::invalid_argument {
  FlagError(const std::string& flag, const std::string& message) : std::invalid_argument(flag + ": " + message) {}
};

template <class T>
struct Range {
  T low, high;
  bool below = false;  ///< `high` itself is out of range
};

/// What a program writes under the name that a flag gives. `Flags::parse` checks that it can, before anything begins,
/// and leaves nothing behind.
struct Output {
  std::vector<std::string> endings = {""};  ///< of the files: name + ending
  bool makes_folders = false;               ///< those that are missing; else the file's folder is there
  bool replaced = false;                    ///< a new file takes the old one's place: its folder is what is written to
  int writer = 0;                           ///< which rank does it, if the processes are started one by one
};

/// The flags of a program, over CLI11, which this file keeps from those who include it: it is slow to compile.
///
/// A value comes from the command line, else from the environment (PROGRAM_FLAG_NAME), else from the file that --config
/// names ("flag-name = value", one a line), else it is what the variable holds. Flags may be spelled with - or _. The
/// variables must outlive the object.
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
  /// A file to write; empty: none.
  void add_output(const std::string& flag, std::string& value, const std::string& help, const Output& output = {});
  /// ... as `as` says once all flags are read.
  void add_output(const std::string& flag, std::string& value, const std::string& help, std::function<Output()> as);
  /// One of `choices`.
  void add(const std::string& flag, std::string& value, const std::vector<std::string>& choices,
           const std::string& help);

  /// Several of `choices`; without dashes in its name it is what stands on the line without a flag.
  void add(const std::string& flag, std::vector<std::string>& values, const std::vector<std::string>& choices,
           const std::string& help);

  /// --device: cpu, cuda or cuda:N. That this machine has it is checked by `parse`, before any worker starts.
  void add_device(std::string& device, const std::string& help);
  /// --rank, --master-addr, --master-port, of a process that is started by hand. Under a launcher none is needed.
  void add_launch(tendril::rpc::LaunchOptions& options);

  // Flags of several programs: name and range are the same in all, and stand here once.
  void add_world_size(int& world_size, int most, const std::string& help) {
    add("--world-size", world_size, {1, most}, help);
  }
  void add_seed(std::int64_t& seed) {
    add("--seed", seed, {0, std::int64_t{1} << 40}, "Everything random follows from it");
  }
  void add_epochs(std::int64_t& epochs, const std::string& help) { add("--epochs", epochs, {1, kMany}, help); }
  void add_batch_size(std::int64_t& batch_size, const std::string& help) {
    add("--batch-size,--batch", batch_size, {1, kMany}, help);
  }
  void add_learning_rate(double& lr, const std::string& help) { add("--lr", lr, {0, 1e6}, help); }
  void add_clip(double& clip) {
    add("--clip", clip, {0, 1e9}, "Longest gradient of all parameters together, 0 for any");
  }
  void add_temperature(double& temperature, const std::string& help) {
    add("--temperature", temperature, {0, 100}, help);
  }
  void add_dropout(double& dropout, Range<double> range, const std::string& help) {
    add("--dropout", dropout, range, help);
  }
  /// What to learn from: a file or a folder.
  void add_data(std::string& data, const std::string& help) { add("--data", data, help); }
  /// What learns: one of `choices`.
  void add_model(std::string& model, const std::vector<std::string>& choices, const std::string& help) {
    add("--model", model, choices, help);
  }
  void add_workers(int& workers, Range<std::int64_t> range, const std::string& help) {
    add("--workers", workers, range, help);
  }
  /// A small run: `finish` looks at it.
  void add_tiny(bool& tiny, const std::string& help) { add("--tiny", tiny, help); }
  template <class Int>
  void add_log_interval(Int& interval, Range<std::int64_t> range, const std::string& help) {
    add("--log-interval", interval, range, help);
  }
  /// --graph, what graph_file.h writes of the first `what`; `writer` says, once all flags are read, which rank: 0
  /// without.
  void add_graph(std::string& graph, const std::string& what, std::function<int()> writer = {});
  /// --checkpoint, a file that is written when `written` says, or what `as` makes of it once all flags are read, and
  /// --resume, which is "no" or "auto".
  void add_checkpoint(std::string& checkpoint, bool& resume, const std::string& written,
                      std::function<Output()> as = {});
  /// --logdir; `writer` says, once all flags are read, which rank writes: 0 without.
  void add_logdir(std::string& logdir, std::function<int()> writer = {});
  /// Not both of them.
  void exclude(const std::string& one, const std::string& other);

  /// Fills the variables; `finish` then looks at them together, and may throw FlagError. Nothing: go on. Else help or
  /// what is wrong is printed, and the program ends with this status.
  std::optional<int> parse(int argc, const char* const* argv, const std::function<void()>& finish = {});

  /// `parse` for a program's own parse_options: the options, or nothing and the status to exit with.
  template <class Options>
  std::optional<Options> parse(int argc, const char* const* argv, const Options& options, int& exit_status,
                               const std::function<void()>& finish = {}) {
    const auto status = parse(argc, argv, finish);
    exit_status = status.value_or(0);
    return status ? std::nullopt : std::optional(options);
  }

  /// Was it given (by any of the ways)? From `finish` on.
  bool given(const std::string& flag) const;
  /// In `finish`: the variable of a flag that was not given becomes what another flag implies, also for `effective`.
  template <class T, class V>
  void imply(const std::string& flag, T& variable, const V& value) {
    variable = value;
    std::ostringstream text;
    text << variable;
    show(flag, text.str());
  }
  /// In `finish`: `effective` lacks a flag that was not given and cannot be beside those that were.
  void omit(const std::string& flag);
  /// All flags with their values, as --config reads them. From `finish` on.
  std::string effective();

 private:
  static constexpr std::int64_t kMany = 1'000'000'000;
  void show(const std::string& flag, const std::string& value);
  void check(const std::string& flag, const std::string& name, const Output& output) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace examples
