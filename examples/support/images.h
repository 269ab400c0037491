#pragma once

#include <tendril/data/datasets.h>

#include <filesystem>

namespace examples {

/// What --data names: a folder of CIFAR-10's, CIFAR-100's or MNIST's files (data/datasets.h says which these are, and
/// what is thrown).
inline tendril::data::LabelledImages load_images(const std::filesystem::path& folder, tendril::data::Split split) {
  if (std::filesystem::exists(folder / "data_batch_1.bin")) return tendril::data::load_cifar10(folder, split);
  if (std::filesystem::exists(folder / "train.bin")) return tendril::data::load_cifar100(folder, split);
  return tendril::data::load_mnist(folder, split);
}

}  // namespace examples
