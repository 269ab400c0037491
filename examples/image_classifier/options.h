#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the image classifier.
namespace image_classifier {

struct Options {
  std::string data;              ///< A folder of MNIST's or CIFAR's files; empty: digits that the program draws.
  std::int64_t examples = 6000;  ///< Drawn to learn from; a sixth of it to test.
  std::string model = "cnn";     ///< Or resnet18.
  std::int64_t epochs = 5, batch_size = 64;
  double lr = 1e-3;
  std::int64_t seed = 1;  ///< Everything random follows from it.
  int workers = 2;        ///< Threads that prepare images.
  std::string device = "cpu";
  std::string checkpoint = "image_classifier.safetensors";  ///< Written after each epoch and on SIGTERM.
  bool resume = false;                                      ///< Go on from the checkpoint, if it is there.
  std::string mistakes = "mistakes.png";
  std::string logdir;     ///< Loss and accuracy for TensorBoard; empty: none.
  std::string effective;  ///< All flags as they are in the end, one a line.
};

/// Flags, else the environment (IMAGE_CLASSIFIER_EPOCHS), else a file (--config). Prints the help or what is wrong and
/// returns nothing, with the status to exit with in `exit_status`.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace image_classifier
