#include "options.h"

#include "../support/flags.h"

namespace image_classifier {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000'000;
  Options options;
  examples::Flags flags("image_classifier",
                        "Learns to tell images apart: MNIST, CIFAR-10, CIFAR-100, or digits that it draws.");
  flags.add_data(options.data, "A folder of MNIST's or CIFAR's (binary) files; without, digits are drawn");
  flags.add("--examples", options.examples, {6, kMany}, "Digits that are drawn to learn from; a sixth of it to test");
  flags.add_model(options.model, {"cnn", "resnet18"}, "What learns: cnn or resnet18");
  flags.add_epochs(options.epochs, "Times through the images");
  flags.add_batch_size(options.batch_size, "Images in one step");
  flags.add_learning_rate(options.lr, "Learning rate of AdamW, at first");
  flags.add_seed(options.seed);
  flags.add_workers(options.workers, {0, 64}, "Threads that prepare images");
  flags.add_device(options.device, "Where the model computes: cpu, cuda or cuda:N");
  flags.add_checkpoint(options.checkpoint, options.resume, "after each epoch");
  flags.add_output("--mistakes", options.mistakes, "A PNG of test images that are taken for others",
                   {.replaced = true});
  flags.add_logdir(options.logdir);
  return flags.parse(argc, argv, options, exit_status, [&] { options.effective = flags.effective(); });
}

}  // namespace image_classifier
