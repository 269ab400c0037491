#include "options.h"

#include <CLI/CLI.hpp>

#include "../device_flag.h"

namespace image_classifier {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  Options options;
  const auto between = [](auto low, auto high) {  // CLI::Range would print integers as floating-point numbers
    return CLI::Validator(
        [low, high](std::string& text) {
          auto value = low;
          if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return std::string();
          return "expected a number from " + CLI::detail::to_string(low) + " to " + CLI::detail::to_string(high) +
                 ", got " + text;
        },
        "");
  };
  const std::int64_t one = 1, many = 1'000'000'000;
  CLI::App app{"Learns to tell images apart: MNIST, CIFAR-10, CIFAR-100, or digits that it draws.", "image_classifier"};
  app.option_defaults()->always_capture_default();
  app.add_option("--data", options.data, "A folder of MNIST's or CIFAR's (binary) files; without, digits are drawn");
  app.add_option("--examples", options.examples, "Digits that are drawn to learn from")->check(between(6 * one, many));
  app.add_option("--model", options.model, "cnn or resnet18")->check(CLI::IsMember({"cnn", "resnet18"}));
  app.add_option("--epochs", options.epochs, "Times through the images")->check(between(one, many));
  app.add_option("--batch-size", options.batch_size, "Images in one step")->check(between(one, many));
  app.add_option("--lr", options.lr, "Learning rate of AdamW, at first")->check(between(0.0, 10.0));
  app.add_option("--seed", options.seed, "Random seed")->check(between(0 * one, many));
  app.add_option("--workers", options.workers, "Threads that prepare images")->check(between(0, 64));
  examples::add_device_flag(app, options.device, "Where the model computes: cpu, cuda or cuda:N");
  app.add_option("--checkpoint", options.checkpoint, "Written after each epoch, and on SIGTERM or Ctrl-C");
  std::string resume = "no";
  app.add_option("--resume", resume, "auto: go on from the checkpoint, if it is there")
      ->check(CLI::IsMember({"no", "auto"}));
  app.add_option("--mistakes", options.mistakes, "A PNG of test images that are taken for others");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error);
    return std::nullopt;
  }
  options.resume = resume == "auto";
  if (examples::device_is_missing(options.device, exit_status)) return std::nullopt;
  return options;
}

}  // namespace image_classifier
