#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "../device_flag.h"
#include "../launch_flags.h"

namespace pipeline {
namespace {

// --micro_batches=3 -> --micro-batches=3
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) == 0)
    std::replace(argument.begin(), std::find(argument.begin(), argument.end(), '='), '_', '-');
  return argument;
}

CLI::Validator within(std::int64_t low, std::int64_t high) {
  return {[low, high](std::string& text) {
            std::int64_t value = 0;
            if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
            return "expected an integer from " + std::to_string(low) + " to " + std::to_string(high) + ", got " + text;
          },
          ""};
}

void check_at_most(const char* flag, const std::vector<std::int64_t>& values, std::int64_t batch) {
  for (const auto value : values) {
    if (value > batch)
      throw CLI::ValidationError(
          flag, "expected at most the batch size " + std::to_string(batch) + ", got " + std::to_string(value));
  }
}

// Batch normalisation needs two values per channel; the last feature map has the image's size over 32.
void check_smallest(const Options& options) {
  const std::int64_t side = (options.image + 31) / 32;
  for (const auto& run : options.runs) {
    if (run.back() * side * side < 2)
      throw CLI::ValidationError(
          "micro-batches", "a batch of " + std::to_string(options.batch_size) + " in " + std::to_string(run.size()) +
                               " leaves a micro-batch of one image, whose last feature map has one pixel: " +
                               "batch normalisation needs more than one value");
  }
}

}  // namespace

std::vector<std::int64_t> split_into(std::int64_t batch, std::int64_t count) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(count), batch / count);
  for (std::int64_t i = 0; i < batch % count; ++i) ++parts[static_cast<std::size_t>(i)];
  return parts;
}

std::vector<std::int64_t> split_by(std::int64_t batch, std::int64_t size) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(batch / size), size);
  if (batch % size != 0) parts.push_back(batch % size);
  return parts;
}

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Options options;
  std::vector<std::int64_t> counts, sizes;
  bool tiny = false;
  CLI::App app{"ResNet-50 on two workers that a third feeds with micro-batches.", "resnet50_pipeline"};
  auto* numbers =
      app.add_option("--micro-batches", counts,
                     "Into how many micro-batches to cut each batch, one run for each number. Where it does "
                     "not divide, the first ones have one image more. Default: 1 2 4 8")
          ->check(within(1, 1'000'000));
  app.add_option("--micro-batch-size", sizes,
                 "Instead: how many images a micro-batch has. Where it does not divide, the last one is smaller")
      ->check(within(1, 1'000'000))
      ->excludes(numbers);
  app.option_defaults()->always_capture_default();
  auto* batch_size =
      app.add_option("--batch-size", options.batch_size, "Images in a batch")->check(within(1, 1'000'000));
  app.add_option("--batches", options.batches, "How many batches to train on")->check(within(1, 1'000'000));
  auto* image = app.add_option("--image", options.image, "Height and width of the images")->check(within(1, 4096));
  auto* classes = app.add_option("--classes", options.network.classes, "How many classes")->check(within(1, 1'000'000));
  app.add_option("--seed", options.network.seed, "Everything random follows from it")
      ->check(within(0, std::int64_t{1} << 40));
  app.add_option("--threads", options.threads, "Threads each shard computes with; 0: half of this machine's cores")
      ->check(within(0, 1024));
  examples::add_device_flag(
      app, options.device, "Where the shards compute: cpu, cuda:N, or cuda: each on a GPU of its own if there are two");
  app.add_flag("--tiny", tiny, "A narrow network on small images, done in seconds");
  examples::add_launch_flags(app, options.launch);
  try {
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i) arguments.push_back(with_dashes(argv[i]));  // CLI11 takes them last first
    app.parse(std::move(arguments));
    if (tiny) {
      options.network.base = 8;
      options.network.blocks = {1, 1, 1, 1};
      if (classes->count() == 0) options.network.classes = 10;
      if (image->count() == 0) options.image = 32;
      if (batch_size->count() == 0) options.batch_size = 16;
    }
    if (counts.empty() && sizes.empty()) {
      for (const std::int64_t count : {1, 2, 4, 8}) counts.push_back(count);
    }
    check_at_most("--micro-batches", counts, options.batch_size);
    check_at_most("--micro-batch-size", sizes, options.batch_size);
    for (const auto count : counts) options.runs.push_back(split_into(options.batch_size, count));
    for (const auto size : sizes) options.runs.push_back(split_by(options.batch_size, size));
    check_smallest(options);
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error);
    return std::nullopt;
  }
  if (examples::device_is_missing(options.device, exit_status)) return std::nullopt;
  return options;
}

}  // namespace pipeline
