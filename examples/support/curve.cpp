#include "curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "tendril/tensor/detail/classic_numbers.h"

namespace examples {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 60;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;

template <class... Values>
std::string formatted(const char* format, Values... values) {
  const tendril::detail::ClassicNumbers numbers;
  std::array<char, 256> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return {buffer.data(), std::min(static_cast<std::size_t>(length), buffer.size() - 1)};
}

// A round step that divides [0, range] into at most five parts.
double tick_step(double range) {
  const double magnitude = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * magnitude) <= 5) return factor * magnitude;
  return 10 * magnitude;
}

struct Axes {
  double episodes;
  double rewards;
  double x(double episode) const { return kLeft + episode / episodes * (kWidth - kLeft - kRight); }
  double y(double reward) const { return kHeight - kBottom - reward / rewards * (kHeight - kTop - kBottom); }
};

template <class Value>
std::string polyline(std::span<const CurvePoint> points, const Axes& axes, const char* style, Value value) {
  std::string line = "<polyline fill=\"none\" ";
  line += style;
  line += " points=\"";
  for (const CurvePoint& point : points) line += formatted("%.1f,%.1f ", axes.x(point.episode), axes.y(value(point)));
  return line + "\"/>\n";
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

}  // namespace

std::string curve_csv(std::span<const CurvePoint> points) {
  std::string csv = "episode,reward,running_reward,steps,seconds\n";
  for (const CurvePoint& p : points)
    csv += formatted("%d,%g,%.4f,%lld,%.4f\n", p.episode, p.reward, p.running_reward, static_cast<long long>(p.steps),
                     p.seconds);
  return csv;
}

std::string curve_svg(std::span<const CurvePoint> points, double threshold, const std::string& title) {
  Axes axes{.episodes = 1, .rewards = threshold * 1.1};
  for (const CurvePoint& p : points) {
    axes.episodes = std::max(axes.episodes, static_cast<double>(p.episode));
    axes.rewards = std::max(axes.rewards, p.reward);
  }
  std::string svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += formatted("<text x=\"%g\" y=\"24\" font-size=\"15\">", kLeft) + escaped(title) + "</text>\n";
  const double bottom = axes.y(0);
  for (double tick = 0; tick <= axes.rewards; tick += tick_step(axes.rewards))
    svg += formatted("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>", kLeft, kWidth - kRight,
                     axes.y(tick), axes.y(tick)) +
           formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", kLeft - 6, axes.y(tick) + 4, tick);
  for (double tick = 0; tick <= axes.episodes; tick += tick_step(axes.episodes))
    svg += formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n", axes.x(tick), bottom + 18, tick);
  svg += formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">episode</text>\n", (kLeft + kWidth - kRight) / 2,
                   kHeight - 12);
  svg += formatted("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#2a2\" stroke-dasharray=\"6 4\"/>\n",
                   kLeft, kWidth - kRight, axes.y(threshold), axes.y(threshold));
  svg += polyline(points, axes, "stroke=\"#9bd\"", [](const CurvePoint& p) { return p.reward; });
  svg += polyline(points, axes, "stroke=\"#c40\" stroke-width=\"2\"",
                  [](const CurvePoint& p) { return p.running_reward; });
  svg += formatted("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#2a2\">solved above %g</text>\n",
                   kWidth - kRight, axes.y(threshold) - 5, threshold);
  svg +=
      formatted("<text x=\"%.1f\" y=\"%.1f\" fill=\"#69b\">reward of the worst observer</text>", kLeft + 8, kTop + 14) +
      formatted("<text x=\"%.1f\" y=\"%.1f\" fill=\"#c40\">running reward</text>\n", kLeft + 8, kTop + 30);
  return svg + "</svg>\n";
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;  // opening the file will tell
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace examples
