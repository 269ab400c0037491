#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace examples {

/// One episode of the learning curve.
struct CurvePoint {
  int episode;
  double reward;          ///< lowest reward of any observer
  double running_reward;  ///< exponential average of `reward`
  std::int64_t steps;     ///< environment steps of all observers since the start
  double seconds;         ///< since the start
};

/// CSV text: the header "episode,reward,running_reward,steps,seconds", then one line per episode.
std::string curve_csv(std::span<const CurvePoint> points);

/// SVG text, 720 x 400 pixels: reward (thin line) and running reward (thick line) per episode, and the success
/// threshold. `title` is inserted unescaped, so it must not contain < or &.
std::string curve_svg(std::span<const CurvePoint> points, double threshold, const std::string& title);

/// Writes text to a file and creates missing folders. Throws std::runtime_error with the file's name if writing fails.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace examples
