#include "tendril/envs/render.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "tendril/tensor/detail/classic_numbers.h"
#include "tendril/tensor/error.h"

namespace tendril::envs {
namespace {

struct Point {
  double x;
  double y;
};
using Quad = std::array<Point, 4>;

// Gymnasium's scene, in pixels with y upwards from the lower edge, as its render() lays it out.
constexpr double kWidth = 600;
constexpr double kHeight = 400;
constexpr double kPixelsPerMetre = kWidth / (2 * CartPolePhysics::x_threshold);
constexpr double kTrackHeight = 100;
constexpr double kPoleWidth = 10;
constexpr double kPoleLength = kPixelsPerMetre * 2 * CartPolePhysics::half_length;
constexpr double kCartWidth = 50;
constexpr double kCartHeight = 30;
constexpr double kAxleHeight = kTrackHeight + kCartHeight / 4;

struct Scene {
  Quad cart;
  Quad pole;
  Point axle;
};

Scene scene_of(const CartPole::State& state) {
  const double centre = state[0] * kPixelsPerMetre + kWidth / 2;
  Scene scene;
  scene.axle = {centre, kAxleHeight};
  const double l = kCartWidth / 2;
  const double t = kCartHeight / 2;
  scene.cart = {Point{centre - l, kTrackHeight - t}, Point{centre - l, kTrackHeight + t},
                Point{centre + l, kTrackHeight + t}, Point{centre + l, kTrackHeight - t}};
  const double w = kPoleWidth / 2;
  const Quad upright = {Point{-w, -w}, Point{-w, kPoleLength - w}, Point{w, kPoleLength - w}, Point{w, -w}};
  const double c = std::cos(state[2]);
  const double s = std::sin(state[2]);
  for (std::size_t i = 0; i < upright.size(); ++i)  // clockwise: a positive angle leans to the right
    scene.pole[i] = {scene.axle.x + c * upright[i].x + s * upright[i].y,
                     scene.axle.y - s * upright[i].x + c * upright[i].y};
  return scene;
}

bool inside(const Quad& quad, Point p) {
  // Both quads run clockwise: the inside lies to the right of every edge.
  for (std::size_t i = 0; i < quad.size(); ++i) {
    const Point a = quad[i];
    const Point b = quad[(i + 1) % quad.size()];
    if ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x) > 0) return false;
  }
  return true;
}

enum class Ink { none, track, cart, pole, axle };

Ink ink_at(const Scene& scene, Point p, double half_dot) {
  const double dx = p.x - scene.axle.x;
  const double dy = p.y - scene.axle.y;
  if (dx * dx + dy * dy <= kPoleWidth * kPoleWidth / 4) return Ink::axle;
  if (inside(scene.pole, p)) return Ink::pole;
  if (inside(scene.cart, p)) return Ink::cart;
  if (std::abs(p.y - kTrackHeight) <= half_dot) return Ink::track;
  return Ink::none;
}

// The part of the scene that a terminal frame shows: all of its width, the heights the upright pole can reach.
constexpr double kViewBottom = 75;
constexpr double kViewTop = 245;

void append_utf8_braille(std::string& out, unsigned dots) {
  // U+2800 + dots, always three bytes.
  out += '\xE2';
  out += static_cast<char>(0xA0 | (dots >> 6));
  out += static_cast<char>(0x80 | (dots & 0x3F));
}

std::string_view ansi_color(Ink ink) {
  switch (ink) {
    case Ink::pole:
      return "\x1b[38;5;173m";
    case Ink::axle:
      return "\x1b[38;5;104m";
    default:
      return "\x1b[0m";
  }
}

char ascii(Ink ink) {
  switch (ink) {
    case Ink::track:
      return '-';
    case Ink::cart:
      return '#';
    case Ink::pole:
      return '|';
    case Ink::axle:
      return 'o';
    case Ink::none:
      break;
  }
  return ' ';
}

struct Cell {
  unsigned dots = 0;    // bits in the order of Unicode's braille patterns
  Ink ink = Ink::none;  // the foremost ink in the cell
};

Cell sample_cell(const Scene& scene, int column, int row, const TerminalRenderOptions& options) {
  // Rows of dots within a cell carry the bits 0,3 / 1,4 / 2,5 / 6,7.
  constexpr unsigned bit[4][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
  const double dot_width = kWidth / (2 * options.columns);
  const double dot_height = (kViewTop - kViewBottom) / (4 * options.rows);
  Cell cell;
  for (int v = 0; v < 4; ++v)
    for (int u = 0; u < 2; ++u) {
      const Point p{(2 * column + u + 0.5) * dot_width, kViewTop - (4 * row + v + 0.5) * dot_height};
      const Ink ink = ink_at(scene, p, dot_height / 2);
      if (ink == Ink::none) continue;
      cell.dots |= 1U << bit[v][u];
      cell.ink = std::max(cell.ink, ink);
    }
  return cell;
}

// Also false for what is not a number.
bool in_sight(const CartPole::State& state) {
  return std::abs(state[0]) < 2 * CartPolePhysics::x_threshold && std::isfinite(state[2]);
}

template <class... Numbers>
void append_formatted(std::string& out, const char* format, Numbers... numbers) {
  const tendril::detail::ClassicNumbers point;
  std::array<char, 256> line;
  const int length = std::snprintf(line.data(), line.size(), format, numbers...);
  out.append(line.data(), static_cast<std::size_t>(length));
}

void append_polygon(std::string& out, const Quad& quad, const char* fill) {
  out += "<polygon points=\"";
  for (std::size_t i = 0; i < quad.size(); ++i)
    append_formatted(out, i ? " %.2f,%.2f" : "%.2f,%.2f", quad[i].x, kHeight - quad[i].y);
  out += "\" fill=\"";
  out += fill;
  out += "\"/>\n";
}

}  // namespace

std::string render_terminal(const CartPole::State& state, const TerminalRenderOptions& options) {
  constexpr int min_columns = 20;
  constexpr int min_rows = 5;
  TENDRIL_CHECK(options.columns >= min_columns && options.rows >= min_rows,
                "render_terminal: the frame must have at least ", min_columns, " columns and ", min_rows, " rows, got ",
                options.columns, " and ", options.rows);
  // Far outside of the frame, so that only the track is seen.
  const Scene scene = scene_of(in_sight(state) ? state : CartPole::State{1e6, 0, 0, 0});
  std::string frame;
  for (int row = 0; row < options.rows; ++row) {
    Ink current = Ink::none;
    for (int column = 0; column < options.columns; ++column) {
      const Cell cell = sample_cell(scene, column, row, options);
      if (options.color && ansi_color(cell.ink) != ansi_color(current)) frame += ansi_color(cell.ink);
      current = cell.ink;
      if (options.braille)
        append_utf8_braille(frame, cell.dots);
      else
        frame += ascii(cell.ink);
    }
    if (options.color && ansi_color(current) != ansi_color(Ink::none)) frame += ansi_color(Ink::none);
    frame += '\n';
  }
  return frame;
}

std::string render_svg(const CartPole::State& state) {
  std::string svg;
  append_formatted(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" viewBox=\"0 0 %g %g\">\n",
                   kWidth, kHeight, kWidth, kHeight);
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  if (in_sight(state)) {
    const Scene scene = scene_of(state);
    append_polygon(svg, scene.cart, "rgb(0,0,0)");
    append_polygon(svg, scene.pole, "rgb(202,152,101)");
    append_formatted(svg, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\" fill=\"rgb(129,132,203)\"/>\n", scene.axle.x,
                     kHeight - scene.axle.y, kPoleWidth / 2);
  }
  append_formatted(svg, "<line x1=\"0\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"black\"/>\n", kHeight - kTrackHeight,
                   kWidth, kHeight - kTrackHeight);
  svg += "</svg>\n";
  return svg;
}

}  // namespace tendril::envs
