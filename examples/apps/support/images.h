#pragma once

#include <tendril/data/datasets.h>
#include <tendril/tensor/error.h>

#include <filesystem>

namespace examples {

/// Loads the images of --data: a folder of CIFAR-10, CIFAR-100 or MNIST files. data/datasets.h lists the file names and
/// the exceptions.
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
