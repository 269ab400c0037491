#pragma once

#include <tendril/data/datasets.h>

#include <cstdint>

#include "options.h"

namespace image_classifier {

/// Digits drawn with a pen: moved, turned, slanted, larger and smaller, thin and thick, with noise. [count, 1, 20, 20];
/// the same for the same seed.
tendril::data::LabelledImages draw_digits(std::int64_t count, std::int64_t seed);

/// What is in the folder that the options name: CIFAR-10, CIFAR-100 or MNIST; without one, digits.
tendril::data::LabelledImages load_images(const Options& options, tendril::data::Split split);

}  // namespace image_classifier
