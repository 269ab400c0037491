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
  double reward;          ///< of the worst observer
  double running_reward;  ///< its exponential average
  std::int64_t steps;     ///< environment steps of all observers since the start
  double seconds;         ///< since the start
};

/// "episode,reward,running_reward,steps,seconds" and a line an episode.
std::string curve_csv(std::span<const CurvePoint> points);

/// A picture of 720 x 400: reward (thin) and running reward (thick) over episodes, and the threshold of success. The
/// title is SVG text: without < and &.
std::string curve_svg(std::span<const CurvePoint> points, double threshold, const std::string& title);

/// Writes text to a file, whose folder is made if it is not there. Throws std::runtime_error that names the file if it
/// cannot.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace examples
