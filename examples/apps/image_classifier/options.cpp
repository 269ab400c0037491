#include "options.h"

#include "../support/flags.h"

namespace image_classifier {

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr std::int64_t kMany = 1'000'000'000;
  Options options;
  examples::Flags flags("image_classifier",
                        "Trains an image classifier on MNIST, CIFAR-10, CIFAR-100, or digits that it draws.");
  flags.add_data(options.data, "Folder of MNIST or CIFAR (binary) files; default: draw digits");
  flags.add("--examples", options.examples, {6, kMany},
            "Number of digits to draw for training; a sixth as many for testing");
  flags.add_model(options.model, {"cnn", "resnet18"}, "Model: cnn or resnet18");
  flags.add_epochs(options.epochs, "Passes over the training images");
  flags.add_batch_size(options.batch_size, "Images per step");
  flags.add_learning_rate(options.lr, "Initial learning rate of AdamW");
  flags.add_seed(options.seed);
  flags.add_workers(options.workers, {0, 64}, "Threads that prepare images");
  flags.add_device(options.device, "Device of the model: cpu, cuda or cuda:N");
  flags.add_checkpoint(options.checkpoint, options.resume, "after each epoch");
  flags.add_output("--mistakes", options.mistakes, "Write the first misclassified test images to this PNG",
                   {.replaced = true});
  flags.add_logdir(options.logdir);
  return flags.parse(argc, argv, options, exit_status, [&] { options.effective = flags.effective(); });
}

}  // namespace image_classifier
