#pragma once

#include <tendril/data/datasets.h>

#include <cstdint>
#include <string>
#include <vector>

/// What the program prints and draws. `predicted` are labels that the model gives the images of `test`.
namespace image_classifier {

using tendril::data::LabelledImages;

void print_start(const LabelledImages& images, const LabelledImages& test, std::int64_t parameters, std::uint64_t epoch,
                 std::int64_t batch);

/// The share of images that were taken for what they are.
double accuracy(const LabelledImages& test, const std::vector<std::int64_t>& predicted);

void print_epoch(std::uint64_t epoch, double loss, double accuracy);

/// How often images of each label (row) were taken for each (column).
void print_confusion(const LabelledImages& test, const std::vector<std::int64_t>& predicted);

/// The first 64 images that were taken for others, in one PNG.
void save_mistakes(const LabelledImages& test, const std::vector<std::int64_t>& predicted, const std::string& file);

}  // namespace image_classifier
