#include "digits.h"

#include <tendril/tensor/creation.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "../support/images.h"

namespace image_classifier {
namespace {

constexpr std::int64_t kSide = 20;

/// Strokes of each digit: corners as column and row on a 10 x 10 grid.
constexpr std::array<const char*, 10> kStrokes = {"30 60 82 86 69 39 16 12 30",
                                                  "23 50 59",
                                                  "12 30 60 82 83 19 89",
                                                  "11 30 60 82 73 54 35 55 76 87 69 39 18",
                                                  "59 50 16 86",
                                                  "80 20 14 54 76 87 69 29 18",
                                                  "70 40 13 16 39 69 87 75 54 34 16",
                                                  "10 80 49",
                                                  "34 13 30 60 83 64 34 17 39 69 87 64",
                                                  "29 59 86 83 60 30 13 15 35 65 83"};

struct Point {
  double x, y;
};

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const double along = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0);
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

void draw(std::size_t digit, tendril::Generator& random, std::uint8_t* image) {
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  const double turn = between(-0.25, 0.25), slant = between(-0.3, 0.3), size = between(1.1, 1.6),
               pen = between(0.6, 1.3);
  const double left = kSide / 2.0 + between(-2, 2), top = kSide / 2.0 + between(-1.5, 1.5);
  std::vector<Point> corners;
  std::istringstream strokes(kStrokes[digit]);
  for (std::string at; strokes >> at;) {
    const double x = at[0] - '0' - 4.5 + between(-0.3, 0.3), y = at[1] - '0' - 4.5 + between(-0.3, 0.3);
    const double slanted = x - slant * y;
    corners.push_back({left + size * (slanted * std::cos(turn) - y * std::sin(turn)),
                       top + size * (slanted * std::sin(turn) + y * std::cos(turn))});
  }
  for (std::int64_t i = 0; i < kSide * kSide; ++i) {
    const std::int64_t column = i % kSide, row = i / kSide;
    const Point pixel{static_cast<double>(column) + 0.5, static_cast<double>(row) + 0.5};
    double nearest = kSide;
    for (std::size_t s = 1; s < corners.size(); ++s) {
      nearest = std::min(nearest, distance_to_segment(pixel, corners[s - 1], corners[s]));
    }
    const double ink = std::clamp(pen + 0.5 - nearest, 0.0, 1.0) + between(-0.15, 0.15);
    image[i] = static_cast<std::uint8_t>(255 * std::clamp(ink, 0.0, 1.0));
  }
}

}  // namespace

tendril::data::LabelledImages draw_digits(std::int64_t count, std::int64_t seed) {
  tendril::data::LabelledImages digits;
  digits.images = tendril::empty({count, 1, kSide, kSide}, tendril::kUInt8);
  digits.labels = tendril::empty({count}, tendril::kInt64);
  for (int digit = 0; digit < 10; ++digit) digits.classes.push_back(std::to_string(digit));
  tendril::Generator random(static_cast<std::uint64_t>(seed));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t digit = random.below(10);
    digits.labels.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(digit);
    draw(digit, random, digits.images.mutable_data<std::uint8_t>() + i * kSide * kSide);
  }
  return digits;
}

tendril::data::LabelledImages load_images(const Options& options, tendril::data::Split split) {
  const bool train = split == tendril::data::Split::train;
  if (!options.data.empty()) return examples::load_images(options.data, split);
  return draw_digits(train ? options.examples : options.examples / 6, 2 * options.seed + train);
}

}  // namespace image_classifier
