#pragma once

#include <sstream>
#include <string>

/// An SVG picture made of boxes and lines of text at given positions; units are pixels.
class Svg {
 public:
  /// Adds a rectangle with centred text.
  void box(double x, double y, double width, double height, const std::string& color, const std::string& text = "") {
    parts_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height << "\" fill=\""
           << color << "\" stroke=\"#333\" stroke-width=\"0.5\"/>\n";
    if (!text.empty()) this->text(x + width / 2, y + height / 2 + 4, text, "text-anchor=\"middle\"");
  }
  /// Adds a line of text; `style` holds additional attributes.
  void text(double x, double y, const std::string& text, const std::string& style = "") {
    parts_ << "<text x=\"" << x << "\" y=\"" << y << "\" xml:space=\"preserve\"" << (style.empty() ? "" : " ") << style
           << '>' << text << "</text>\n";
  }
  /// Returns the complete SVG, with this size.
  std::string picture(double width, double height) const {
    std::ostringstream all;
    all << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
        << "\" viewBox=\"0 0 " << width << ' ' << height
        << "\" font-family=\"monospace\" font-size=\"11\">\n<rect width=\"" << width << "\" height=\"" << height
        << "\" fill=\"white\"/>\n"
        << parts_.str() << "</svg>\n";
    return all.str();
  }

 private:
  std::ostringstream parts_;
};
