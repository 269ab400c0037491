#pragma once

#include <tendril/data/datasets.h>
#include <tendril/tensor/error.h>

#include <filesystem>

namespace examples {

/// What --data names: a folder of CIFAR-10's, CIFAR-100's or MNIST's files (data/datasets.h says which these are, and
/// what is thrown).
inline tendril::data::LabelledImages load_images(const std::filesystem::path& folder, tendril::data::Split split) {
  if (std::filesystem::exists(folder / "data_batch_1.bin")) return tendril::data::load_cifar10(folder, split);
  if (std::filesystem::exists(folder / "train.bin")) return tendril::data::load_cifar100(folder, split);
  const bool mnist = std::filesystem::exists(folder / "train-images-idx3-ubyte") ||
                     std::filesystem::exists(folder / "train-images.idx3-ubyte");
  TENDRIL_CHECK(mnist, "--data: ", folder,
                " is no folder with data_batch_1.bin (CIFAR-10), train.bin (CIFAR-100) or train-images-idx3-ubyte "
                "(MNIST)");
  return tendril::data::load_mnist(folder, split);
}

}  // namespace examples
