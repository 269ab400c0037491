#pragma once

#include <tendril/data/datasets.h>

#include <cstdint>
#include <string>
#include <vector>

/// Printed reports and the picture of mistakes. `predicted` holds the model's labels for the images of `test`.
namespace image_classifier {

using tendril::data::LabelledImages;

void print_start(const LabelledImages& images, const LabelledImages& test, std::int64_t parameters, std::uint64_t epoch,
                 std::int64_t batch);

/// Returns the fraction of images that were classified correctly.
double accuracy(const LabelledImages& test, const std::vector<std::int64_t>& predicted);

void print_epoch(std::uint64_t epoch, double loss, double accuracy);

/// Prints how often images of each label (row) were classified as each label (column).
void print_confusion(const LabelledImages& test, const std::vector<std::int64_t>& predicted);

/// Saves the first 64 misclassified images as one PNG.
void save_mistakes(const LabelledImages& test, const std::vector<std::int64_t>& predicted, const std::string& file);

}  // namespace image_classifier
