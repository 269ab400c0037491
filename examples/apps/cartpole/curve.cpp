#include "curve.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iomanip>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace examples {
namespace {

constexpr double kLeft = 60, kRight = 700, kTop = 40, kBottom = 350;

// Returns a round step, at least 1, that divides [0, range] into at most five parts.
double tick_step(double range) {
  const double magnitude = std::pow(10, std::floor(std::log10(range / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * magnitude) <= 5) return std::max(factor * magnitude, 1.0);
  return std::max(10 * magnitude, 1.0);
}

// Uses the classic locale, because the program's locale may print a comma in numbers.
std::ostringstream text_stream() {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  return text;
}

}  // namespace

std::string curve_csv(std::span<const CurvePoint> points) {
  std::ostringstream csv = text_stream();
  csv << "episode,reward,running_reward,steps,seconds\n" << std::setprecision(7);
  for (const CurvePoint& p : points)
    csv << p.episode << ',' << p.reward << ',' << p.running_reward << ',' << p.steps << ',' << p.seconds << '\n';
  return csv.str();
}

std::string curve_svg(std::span<const CurvePoint> points, double threshold, const std::string& title) {
  double episodes = 1, rewards = threshold * 1.1;
  for (const CurvePoint& p : points) {
    episodes = std::max(episodes, static_cast<double>(p.episode));
    rewards = std::max(rewards, p.reward);
  }
  const auto x = [&](double episode) { return kLeft + episode / episodes * (kRight - kLeft); };
  const auto y = [&](double reward) { return kBottom - reward / rewards * (kBottom - kTop); };

  std::ostringstream svg = text_stream();
  svg << R"(<svg xmlns="http://www.w3.org/2000/svg" width="720" height="400" viewBox="0 0 720 400" )"
      << R"(font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>)" << '\n';
  const auto text = [&](double at_x, double at_y, const char* style, const auto&... what) {
    svg << "<text x=\"" << at_x << "\" y=\"" << at_y << "\" " << style << '>';
    (svg << ... << what) << "</text>\n";
  };
  const auto line_at = [&](double reward, const char* style) {
    svg << "<path d=\"M" << kLeft << ' ' << y(reward) << 'H' << kRight << "\" " << style << "/>\n";
  };
  const auto curve = [&](double CurvePoint::*value, const char* style) {
    svg << "<polyline fill=\"none\" " << style << " points=\"";
    for (const CurvePoint& p : points) svg << x(p.episode) << ',' << y(p.*value) << ' ';
    svg << "\"/>\n";
  };

  text(kLeft, 24, R"(font-size="15")", title);
  for (double tick = 0; tick <= rewards; tick += tick_step(rewards)) {
    line_at(tick, R"(stroke="#ddd")");
    text(kLeft - 6, y(tick) + 4, R"(text-anchor="end")", tick);
  }
  for (double tick = 0; tick <= episodes; tick += tick_step(episodes))
    text(x(tick), kBottom + 18, R"(text-anchor="middle")", tick);
  text((kLeft + kRight) / 2, kBottom + 38, R"(text-anchor="middle")", "episode");
  line_at(threshold, R"(stroke="#2a2" stroke-dasharray="6 4")");
  curve(&CurvePoint::reward, R"(stroke="#9bd")");
  curve(&CurvePoint::running_reward, R"(stroke="#c40" stroke-width="2")");
  text(kRight, y(threshold) - 5, R"(text-anchor="end" fill="#2a2")", "solved above ", threshold);
  text(kLeft + 8, kTop + 14, R"(fill="#69b")", "reward of the worst observer");
  text(kLeft + 8, kTop + 30, R"(fill="#c40")", "running reward");
  svg << "</svg>\n";
  return svg.str();
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;  // opening the file reports the error
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace examples
