#include "options.h"

#include "../support/flags.h"

namespace image_classifier {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000'000;
  Options options;
  std::string resume = "no";
  examples::Flags flags("image_classifier",
                        "Learns to tell images apart: MNIST, CIFAR-10, CIFAR-100, or digits that it draws.");
  flags.add("--data", options.data, "A folder of MNIST's or CIFAR's (binary) files; without, digits are drawn");
  flags.add("--examples", options.examples, {6, kMany}, "Digits that are drawn to learn from; a sixth of it to test");
  flags.add("--model", options.model, {"cnn", "resnet18"}, "What learns: cnn or resnet18");
  flags.add("--epochs", options.epochs, {1, kMany}, "Times through the images");
  flags.add("--batch-size", options.batch_size, {1, kMany}, "Images in one step");
  flags.add("--lr", options.lr, {0, 10}, "Learning rate of AdamW, at first");
  flags.add("--seed", options.seed, {0, kMany}, "Random seed");
  flags.add("--workers", options.workers, {0, 64}, "Threads that prepare images");
  flags.add_device(options.device, "Where the model computes: cpu, cuda or cuda:N");
  flags.add("--checkpoint", options.checkpoint, "Written after each epoch, and on SIGTERM or Ctrl-C");
  flags.add("--resume", resume, {"no", "auto"}, "auto: go on from the checkpoint, if it is there");
  flags.add("--mistakes", options.mistakes, "A PNG of test images that are taken for others");
  flags.add("--logdir", options.logdir, "A folder for TensorBoard's curves");
  const auto status = flags.parse(argc, argv, [&] {
    options.resume = resume == "auto";
    options.effective = flags.effective();
  });
  exit_status = status.value_or(0);
  return status ? std::nullopt : std::optional(options);
}

}  // namespace image_classifier
