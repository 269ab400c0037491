#pragma once

#include <tendril/data/datasets.h>

#include <cstdint>

#include "options.h"

namespace image_classifier {

/// Draws digits with random position, rotation, slant, size, pen width and noise. Images are [count, 1, 20, 20], uint8.
/// The same seed gives the same images.
tendril::data::LabelledImages draw_digits(std::int64_t count, std::int64_t seed);

/// Loads CIFAR-10, CIFAR-100 or MNIST from the folder given by --data; without a folder, draws digits.
tendril::data::LabelledImages load_images(const Options& options, tendril::data::Split split);

}  // namespace image_classifier
