#include "flags.h"

#include <tendril/rpc/error.h>
#include <tendril/rpc/launch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "device.h"
#include "tendril/tensor/detail/classic_numbers.h"

namespace examples {
namespace {

constexpr std::int64_t kMany = 1'000'000'000;

// --world_size=3 -> --world-size=3
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) == 0)
    std::replace(argument.begin(), std::find(argument.begin(), argument.end(), '='), '_', '-');
  return argument;
}

// CLI::Range would print integers as floating-point numbers.
template <class T>
CLI::Validator within(Range<T> range) {
  return {[range](std::string& text) {
            T value{};
            if (CLI::detail::lexical_cast(text, value) && value >= range.low &&
                (range.below ? value < range.high : value <= range.high))
              return std::string();
            std::ostringstream message;
            message << "expected " << (std::is_integral_v<T> ? "an integer" : "a number") << " from " << range.low
                    << (range.below ? " to below " : " to ") << range.high << ", got " << text;
            return message.str();
          },
          ""};
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  return {[choices](const std::string& text) -> std::string {
            if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
            std::string all;
            for (const auto& choice : choices) all += (all.empty() ? "" : ", ") + choice;
            return "expected one of " + all + ", got " + text;
          },
          ""};
}

bool mentions(const std::vector<std::string>& arguments, const std::string& flag) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == flag || argument.rfind(flag + '=', 0) == 0;
  });
}

// Why a file of this name cannot be written: 0 or an errno. The system is asked; a file made for a try would stay if
// the program is killed before it takes it away.
int why_not_written(const std::filesystem::path& file, const Output& output) {
  std::error_code failed;
  if (!file.has_filename() || std::filesystem::is_directory(file, failed)) return EISDIR;
  std::filesystem::path place = std::filesystem::absolute(file, failed);
  if (failed) return failed.value();
  if (output.replaced) {
    const auto target = std::filesystem::weakly_canonical(place, failed);  // a link stays one
    if (!failed) place = target;
  } else {
    if (::access(place.c_str(), W_OK) == 0) return 0;
    if (errno != ENOENT) return errno;
  }
  do {
    place = place.parent_path();
    if (::access(place.c_str(), F_OK) == 0 && !std::filesystem::is_directory(place, failed)) return ENOTDIR;
    if (::access(place.c_str(), W_OK | X_OK) == 0) return 0;
  } while (output.makes_folders && errno == ENOENT);
  return errno;
}

}  // namespace

struct Flags::Impl {
  CLI::App app;
  std::string program;
  std::string* device = nullptr;
  const tendril::rpc::LaunchOptions* launch = nullptr;
  std::vector<std::function<void()>> checks = {};  // of what is written

  template <class T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& help) {
    return app.add_option(flag, value, help);
  }

  // What the environment says of flags that the command line does not mention.
  void take_environment(std::vector<std::string>& arguments) const {
    const std::size_t typed = arguments.size();
    for (const CLI::Option* option : app.get_options()) {
      const std::string flag = option->get_name();
      if (flag == "--help" || option->get_lnames().empty()) continue;
      std::string name = program + '_' + flag.substr(2);
      for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      const char* value = std::getenv(name.c_str());
      const auto is_typed = [&](const std::string& spelling) {
        return mentions({arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(typed)}, "--" + spelling);
      };
      const auto& spellings = option->get_lnames();
      if (value == nullptr || std::any_of(spellings.begin(), spellings.end(), is_typed)) continue;
      arguments.push_back(flag + '=' + value);
    }
  }
};

Flags::Flags(const std::string& program, const std::string& description)
    : impl_(new Impl{.app = CLI::App(description, program), .program = program}) {
  impl_->app.option_defaults()->always_capture_default();
  impl_->app.set_config("--config", "", "Read flags from this file: flag-name = value, one a line")->type_name("FILE");
  impl_->app.allow_config_extras(CLI::config_extras_mode::error);
}

Flags::~Flags() = default;

void Flags::add(const std::string& flag, int& value, Range<std::int64_t> range, const std::string& help) {
  impl_->add(flag, value, help)->check(within(range));
}

void Flags::add(const std::string& flag, std::int64_t& value, Range<std::int64_t> range, const std::string& help) {
  impl_->add(flag, value, help)->check(within(range));
}

void Flags::add(const std::string& flag, double& value, Range<double> range, const std::string& help) {
  impl_->add(flag, value, help)->check(within(range));
}

void Flags::add(const std::string& flag, std::vector<std::int64_t>& values, Range<std::int64_t> range,
                const std::string& help) {
  impl_->app.option_defaults()->always_capture_default(!values.empty());
  impl_->add(flag, values, help)->check(within(range));
  impl_->app.option_defaults()->always_capture_default();
}

void Flags::add(const std::string& flag, std::string& value, const std::string& help) { impl_->add(flag, value, help); }

void Flags::add(const std::string& flag, bool& value, const std::string& help) {
  impl_->app.add_flag(flag, value, help);
}

void Flags::add(const std::string& flag, std::string& value, const std::vector<std::string>& choices,
                const std::string& help) {
  impl_->add(flag, value, help)->check(one_of(choices));
}

void Flags::add_output(const std::string& flag, std::string& value, const std::string& help, const Output& output) {
  add_output(flag, value, help, [output] { return output; });
}

void Flags::add_output(const std::string& flag, std::string& value, const std::string& help,
                       std::function<Output()> as) {
  add(flag, value, help);
  impl_->checks.emplace_back([this, flag, &value, as = std::move(as)] { check(flag, value, as()); });
}

void Flags::add_device(std::string& device, const std::string& help) {
  impl_->device = &device;
  impl_->add("--device", device, help)->check([](const std::string& text) -> std::string {
    try {
      tendril::parse_device(text);
    } catch (const tendril::Error&) {
      return "expected cpu, cuda or cuda:N, got " + text;
    }
    return "";
  });
}

void Flags::add_launch(tendril::rpc::LaunchOptions& options) {
  CLI::App& app = impl_->app;
  impl_->launch = &options;
  app.add_option_function<int>(
         "--rank", [&options](int rank) { options.rank = rank; },
         "Be this rank of a group that is started by hand, one process each")
      ->check(within(Range<std::int64_t>{0, 4095}));
  app.add_option("--master-addr", options.master_addr, "Where rank 0 listens (with --rank)")->default_str("127.0.0.1");
  app.add_option_function<int>(
         "--master-port", [&options](int port) { options.master_port = port; }, "Where rank 0 listens (with --rank)")
      ->default_str("29500")
      ->check(within(Range<std::int64_t>{1, 65535}));
}

void Flags::add_world_size(int& world_size, int most, const std::string& help) {
  add("--world-size", world_size, {1, most}, help);
}

void Flags::add_seed(std::int64_t& seed) {
  add("--seed", seed, {0, std::int64_t{1} << 40}, "Everything random follows from it");
}

void Flags::add_epochs(std::int64_t& epochs, const std::string& help) { add("--epochs", epochs, {1, kMany}, help); }

void Flags::add_batch_size(std::int64_t& batch_size, const std::string& help) {
  add("--batch-size,--batch", batch_size, {1, kMany}, help);
}

void Flags::add_learning_rate(double& lr, const std::string& help) { add("--lr", lr, {0, 1e6}, help); }

void Flags::add_clip(double& clip) {
  add("--clip", clip, {0, 1e9}, "Longest gradient of all parameters together, 0 for any");
}

void Flags::add_temperature(double& temperature, const std::string& help) {
  add("--temperature", temperature, {0, 100}, help);
}

void Flags::add_dropout(double& dropout, Range<double> range, const std::string& help) {
  add("--dropout", dropout, range, help);
}

void Flags::add_data(std::string& data, const std::string& help) { add("--data", data, help); }

void Flags::add_model(std::string& model, const std::vector<std::string>& choices, const std::string& help) {
  add("--model", model, choices, help);
}

void Flags::add_workers(int& workers, Range<std::int64_t> range, const std::string& help) {
  add("--workers", workers, range, help);
}

void Flags::add_tiny(bool& tiny, const std::string& help) { add("--tiny", tiny, help); }

void Flags::add_graph(std::string& graph, const std::string& what, std::function<int()> writer) {
  add_output("--graph", graph,
             "Write the graph of the first " + what + ", on all workers, and each step of its backward, for Graphviz",
             [writer = std::move(writer)] { return Output{.writer = writer ? writer() : 0}; });
}

void Flags::add_checkpoint(std::string& checkpoint, bool& resume, const std::string& written,
                           std::function<Output()> as) {
  const auto one_file = [] { return Output{.replaced = true}; };
  add_output("--checkpoint", checkpoint, "Written " + written + ", and on SIGTERM or Ctrl-C",
             as ? std::move(as) : one_file);
  impl_->app
      .add_option_function<std::string>(
          "--resume", [&resume](const std::string& word) { resume = word == "auto"; },
          "auto: go on from the checkpoint, if it is there, at its learning rate")
      ->default_str(resume ? "auto" : "no")
      ->check(one_of({"no", "auto"}));
}

void Flags::add_logdir(std::string& logdir, std::function<int()> writer) {
  add_output("--logdir", logdir, "A folder for TensorBoard's curves", [writer = std::move(writer)] {
    return Output{.endings = {"/events"}, .makes_folders = true, .writer = writer ? writer() : 0};
  });
}

void Flags::check(const std::string& flag, const std::string& name, const Output& output) const {
  if (name.empty()) return;
  const auto* const launch = impl_->launch;  // on another host the folder may be missing
  const int rank = launch == nullptr ? -1 : launch->rank >= 0 ? launch->rank : tendril::rpc::launch_info().rank;
  if (rank >= 0 && rank != output.writer) return;
  for (const std::string& ending : output.endings) {
    const int why = why_not_written(name + ending, output);
    if (why != 0) throw FlagError(flag, "cannot write " + name + ending + ": " + std::strerror(why));
  }
}

void Flags::exclude(const std::string& one, const std::string& other) {
  impl_->app.get_option(one)->excludes(impl_->app.get_option(other));
}

std::optional<int> Flags::parse(int argc, const char* const* argv, const std::function<void()>& finish) {
  const tendril::detail::ClassicNumbers numbers;
  try {
    std::vector<std::string> arguments;
    for (int i = 1; i < argc; ++i) arguments.push_back(with_dashes(argv[i]));
    impl_->take_environment(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    impl_->app.parse(std::move(arguments));
    try {
      if (finish) finish();
      for (const auto& check_output : impl_->checks) check_output();
    } catch (const FlagError& error) {
      throw CLI::ValidationError(error.what());
    } catch (const tendril::rpc::UsageError& error) {  // the environment contradicts itself
      throw CLI::ValidationError(error.what());
    }
  } catch (const CLI::ParseError& error) {
    return impl_->app.exit(error);
  }
  int status = 0;
  if (impl_->device != nullptr && device_is_missing(*impl_->device, status)) return status;
  return std::nullopt;
}

bool Flags::given(const std::string& flag) const { return impl_->app.get_option(flag)->count() > 0; }

void Flags::show(const std::string& flag, const std::string& value) { impl_->app.get_option(flag)->default_str(value); }

std::string Flags::effective() const {
  // What was not given and would not be read as it is: nothing in a list, a flag beside one that excludes it, where to
  // meet without a rank.
  const auto is_given = [](const CLI::Option* option) { return option->count() > 0; };
  for (CLI::Option* option : impl_->app.get_options()) {
    const auto& excluded = option->get_excludes();
    const bool empty_list = option->get_items_expected_max() > 1 && option->get_default_str().empty();
    const bool is_address = option->get_name().rfind("--master-", 0) == 0;
    if (!is_given(option) && (empty_list || is_address || std::any_of(excluded.begin(), excluded.end(), is_given)))
      option->configurable(false);
  }
  return impl_->app.config_to_str(true, false);
}

}  // namespace examples
