#include "flags.h"

#include <tendril/rpc/error.h>
#include <tendril/rpc/launch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "device.h"

namespace examples {
namespace {

/// Switches this thread to the C locale, so that numbers have a decimal point in every locale of the program.
class DecimalPoint {
 public:
  DecimalPoint() : c_(::newlocale(LC_ALL_MASK, "C", nullptr)), before_(::uselocale(c_)) {}
  ~DecimalPoint() {
    ::uselocale(before_);
    ::freelocale(c_);
  }
  DecimalPoint(const DecimalPoint&) = delete;
  DecimalPoint& operator=(const DecimalPoint&) = delete;

 private:
  locale_t c_, before_;
};

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

// Returns the errno with which writing the file would fail, or 0. Queries the system instead of creating the file,
// which would remain if the program were killed before it removed the file.
int why_not_written(const std::filesystem::path& file, const Output& output) {
  std::error_code failed;
  if (!file.has_filename() || std::filesystem::is_directory(file, failed)) return EISDIR;
  std::filesystem::path place = std::filesystem::absolute(file, failed);
  if (failed) return failed.value();
  if (output.replaced) {
    const auto target = std::filesystem::weakly_canonical(place, failed);  // replacing writes to the link's target
    if (!failed) place = target;
  } else {
    if (::access(place.c_str(), W_OK) == 0) return 0;
    if (errno != ENOENT) return errno;
  }
  do {
    place = place.parent_path();
    if (::access((place / "").c_str(), W_OK | X_OK) == 0) return 0;  // the slash: ENOTDIR for a file
  } while (output.makes_folders && errno == ENOENT);
  return errno;
}

}  // namespace

struct Flags::Impl {
  CLI::App app;
  std::string program, config = {};
  std::string* device = nullptr;
  const tendril::rpc::LaunchOptions* launch = nullptr;
  std::vector<std::function<void()>> checks = {};  // of output files

  template <class T>
  CLI::Option* add(const std::string& flag, T& value, const std::string& help) {
    return app.add_option(flag, value, help);
  }

  // CLI11's envname does not work here: it ranks below a file, and newer versions ignore invalid values.
  void take_environment() {
    for (CLI::Option* option : app.get_options()) {
      std::string name = program + '_' + option->get_single_name();
      for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      const char* value = std::getenv(name.c_str());
      if (value != nullptr && option->empty() && option != app.get_help_ptr()) option->add_result(value);
    }
  }
};

Flags::Flags(const std::string& program, const std::string& description)
    : impl_(new Impl{.app = CLI::App(description, program), .program = program}) {
  impl_->app.option_defaults()->always_capture_default();
  impl_->app.add_option("--config", impl_->config, "Read flags from this file: one flag-name = value per line")
      ->check(CLI::ExistingFile)
      ->configurable(false);
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
  CLI::Option* const option = impl_->add(flag, values, help)->check(within(range));
  if (values.empty()) option->default_str("");
}

void Flags::add(const std::string& flag, std::string& value, const std::string& help) { impl_->add(flag, value, help); }

void Flags::add(const std::string& flag, bool& value, const std::string& help) {
  impl_->app.add_flag(flag, value, help);
}

void Flags::add(const std::string& flag, std::string& value, const std::vector<std::string>& choices,
                const std::string& help) {
  impl_->add(flag, value, help)->check(CLI::IsMember(choices));
}

void Flags::add(const std::string& flag, std::vector<std::string>& values, const std::vector<std::string>& choices,
                const std::string& help) {
  impl_->add(flag, values, help)->check(CLI::IsMember(choices))->default_str("all");
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
  impl_->launch = &options;
  impl_->add("--rank", options.rank, "Rank of this process in a group whose processes you start yourself")
      ->default_str("")
      ->check(within(Range<std::int64_t>{0, 4095}));
  impl_->add("--master-addr", options.master_addr, "Address of rank 0 (with --rank)")->default_str("127.0.0.1");
  impl_->add("--master-port", options.master_port, "Port of rank 0 (with --rank)")
      ->default_str("29500")
      ->check(within(Range<std::int64_t>{1, 65535}));
}

void Flags::add_graph(std::string& graph, const std::string& what, std::function<int()> writer) {
  add_output(
      "--graph", graph,
      "Write the autograd graph of the first " + what + ", on all workers, and each step of its backward, for Graphviz",
      [writer = std::move(writer)] { return Output{.writer = writer ? writer() : 0}; });
}

void Flags::add_checkpoint(std::string& checkpoint, bool& resume, const std::string& written,
                           std::function<Output()> as) {
  const auto one_file = [] { return Output{.replaced = true}; };
  add_output("--checkpoint", checkpoint, "Checkpoint, written " + written + " and on SIGTERM or Ctrl-C",
             as ? std::move(as) : one_file);
  impl_->app
      .add_option_function<std::string>(
          "--resume", [&resume](const std::string& word) { resume = word == "auto"; },
          "auto: continue from the checkpoint, if it exists, with its learning rate")
      ->default_str(resume ? "auto" : "no")
      ->check(CLI::IsMember({"no", "auto"}));
}

void Flags::add_logdir(std::string& logdir, std::function<int()> writer) {
  add_output("--logdir", logdir, "Write TensorBoard curves to this folder", [writer = std::move(writer)] {
    return Output{.endings = {"/events"}, .makes_folders = true, .writer = writer ? writer() : 0};
  });
}

void Flags::check(const std::string& flag, const std::string& name, const Output& output) const {
  if (name.empty()) return;
  const auto* const launch = impl_->launch;  // only the writer's host needs the folder
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
  const DecimalPoint numbers;
  try {
    std::vector<std::string> arguments;
    if (argc > 0) impl_->app.name(std::filesystem::path(argv[0]).filename().string());
    for (int i = 1; i < argc; ++i) arguments.push_back(with_dashes(argv[i]));
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
    impl_->app.parse(std::move(arguments));
    impl_->take_environment();
    std::ifstream config(impl_->app["--config"]->as<std::string>());
    impl_->app.parse_from_stream(config);  // fills only flags without a value; empty stream without --config
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

void Flags::omit(const std::string& flag) {
  if (!given(flag)) impl_->app.get_option(flag)->configurable(false);
}

std::string Flags::effective() {
  if (impl_->launch != nullptr)
    for (const char* flag : {"--rank", "--master-addr", "--master-port"}) omit(flag);
  return impl_->app.config_to_str(true, false);
}

}  // namespace examples
