#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Collections of labelled images in the formats that they are distributed in (unpacked: gunzip, tar).
/// Errors: Error for what is no such file, is cut short or contradicts itself, for labels out of range, and for a
/// collection without examples. Thread-safety: any thread.
namespace tendril::data {

/// An IDX file (http://yann.lecun.com/exdb/mnist, "The IDX file format"): big-endian uint8, int32, float32 or float64
/// of any shape. Of bytes, the tensor is the file's own pages (docs/files.md).
Tensor load_idx(const std::filesystem::path& file);
/// Writes one, of these dtypes, atomically. Throws DTypeError for others.
void save_idx(const Tensor& tensor, const std::filesystem::path& file);

/// Which part of a dataset.
enum class Split : uint8_t {
  train,  ///< what to train on
  test,   ///< what to measure on
};

/// A dataset: example i is an image, uint8 [channels, height, width], and its label.
struct LabelledImages {
  Tensor images;                     ///< uint8 [n, channels, height, width]
  Tensor labels;                     ///< int64 [n]
  std::vector<std::string> classes;  ///< names of the labels

  /// How many images.
  int64_t size() const { return labels.size(0); }
  std::tuple<Tensor, int64_t> get(int64_t index) const;  ///< throws IndexError
};

/// Of the folder that MNIST, Fashion-MNIST and the like are: "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte" and so
/// on, also with a dot in place of the hyphen before "idx". Images have 1 channel; classes are "0" to "9".
LabelledImages load_mnist(const std::filesystem::path& folder, Split split);
/// Two IDX files of bytes, [n, height, width] and [n]. Throws Error for labels that are not below `classes`.
LabelledImages load_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                               int64_t classes = 10);

/// The binary versions (https://www.cs.toronto.edu/~kriz/cifar.html) in their folders "cifar-10-batches-bin"
/// (data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt) and "cifar-100-binary" (train.bin,
/// test.bin, fine_label_names.txt). Images are [3, 32, 32]. Class names are numbers where the file of names is missing.
LabelledImages load_cifar10(const std::filesystem::path& folder, Split split);
/// As load_cifar10, with 100 classes.
LabelledImages load_cifar100(const std::filesystem::path& folder, Split split);
/// One file of CIFAR-10's format.
LabelledImages load_cifar10_file(const std::filesystem::path& file);

}  // namespace tendril::data

TENDRIL_API_END
