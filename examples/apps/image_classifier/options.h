#pragma once

#include <cstdint>
#include <optional>
#include <string>

/// The command line of the image classifier.
namespace image_classifier {

struct Options {
  std::string data;              ///< Folder of MNIST or CIFAR files; empty: draw digits.
  std::int64_t examples = 6000;  ///< Digits to draw for training; a sixth as many for testing.
  std::string model = "cnn";     ///< Or resnet18.
  std::int64_t epochs = 5, batch_size = 64;
  double lr = 1e-3;
  std::int64_t seed = 1;  ///< Determines all random numbers.
  int workers = 2;        ///< Threads that prepare images.
  std::string device = "cpu";
  std::string checkpoint = "image_classifier.safetensors";  ///< Written after each epoch and on SIGTERM.
  bool resume = false;                                      ///< Continue from the checkpoint, if it exists.
  std::string mistakes = "mistakes.png";
  std::string logdir;     ///< TensorBoard folder for loss and accuracy; empty: none.
  std::string effective;  ///< The effective value of every flag, one per line.
};

/// Reads flags, then the environment (IMAGE_CLASSIFIER_EPOCHS), then a file (--config); the first source that sets a
/// value wins. On --help or an error, prints the message, stores the exit status in `exit_status`, and returns
/// std::nullopt.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status);

}  // namespace image_classifier
