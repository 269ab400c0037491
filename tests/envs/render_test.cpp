#include "tendril/envs/render.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "tendril/tensor/error.h"
#include "tests/contains.h"
#include "tests/decimal_comma.h"

BOOST_AUTO_TEST_SUITE(render)

using tendril::envs::render_svg;
using tendril::envs::render_terminal;

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_CASE(an_ascii_frame_shows_track_cart_pole_and_axle) {
  const std::string expected =
      "                                        \n"
      "                   ||                   \n"
      "                   ||                   \n"
      "                   ||                   \n"
      "                   ||                   \n"
      "                   ||                   \n"
      "                   ||                   \n"
      "------------------#oo#------------------\n"
      "                  ####                  \n";
  const auto frame = lines(render_terminal({}, {.columns = 40, .rows = 9, .braille = false}));
  const auto upper = lines(expected);
  BOOST_REQUIRE(frame.size() == 9);
  for (std::size_t i = 0; i < upper.size(); ++i) BOOST_TEST(frame[i] == upper[i]);
}

BOOST_AUTO_TEST_CASE(every_line_of_a_frame_has_the_asked_width) {
  const auto plain = lines(render_terminal({0.3, 0, -0.1, 0}, {.columns = 33, .rows = 7, .braille = false}));
  BOOST_TEST(plain.size() == 7U);
  for (const std::string& line : plain) BOOST_TEST(line.size() == 33U);
  const auto braille = lines(render_terminal({0.3, 0, -0.1, 0}, {.columns = 33, .rows = 7}));
  BOOST_TEST(braille.size() == 7U);
  for (const std::string& line : braille) BOOST_TEST(line.size() == 3 * 33U);  // three bytes of UTF-8 a cell
}

BOOST_AUTO_TEST_CASE(a_frame_follows_the_cart_and_the_lean) {
  const tendril::envs::TerminalRenderOptions ascii{.braille = false};
  const auto left = lines(render_terminal({-1.5, 0, 0, 0}, ascii));
  const auto right = lines(render_terminal({1.5, 0, 0, 0}, ascii));
  BOOST_TEST(left[8].find('#') < 20U);
  BOOST_TEST(right[8].find('#') > 40U);
  const auto leaning = lines(render_terminal({0, 0, 0.2, 0}, ascii));
  BOOST_TEST(leaning[1].find('|') > leaning[6].find('|'));
}

BOOST_AUTO_TEST_CASE(colours_are_only_used_when_asked_for_and_end_with_the_line) {
  BOOST_TEST(!contains(render_terminal({}), "\x1b["));
  for (const std::string& line : lines(render_terminal({}, {.color = true}))) {
    const std::size_t last = line.rfind("\x1b[");
    if (last != std::string::npos) BOOST_TEST(line.compare(last, 4, "\x1b[0m") == 0);
  }
  BOOST_TEST(contains(render_terminal({}, {.color = true}), "\x1b[38;5;173m"));
}

BOOST_AUTO_TEST_CASE(an_svg_frame_has_the_geometry_of_gymnasium) {
  const std::string svg = render_svg({});
  BOOST_TEST(svg.rfind("<svg ", 0) == 0U);
  BOOST_TEST(contains(svg, "viewBox=\"0 0 600 400\""));
  BOOST_TEST(contains(svg, "<polygon points=\"275.00,315.00 275.00,285.00 325.00,285.00 325.00,315.00\""));  // cart
  BOOST_TEST(contains(svg, "<polygon points=\"295.00,297.50 295.00,172.50 305.00,172.50 305.00,297.50\""));  // pole
  BOOST_TEST(contains(svg, "<circle cx=\"300.00\" cy=\"292.50\" r=\"5\""));
  BOOST_TEST(contains(svg, "<line x1=\"0\" y1=\"300\" x2=\"600\" y2=\"300\""));
  BOOST_TEST(contains(svg, "</svg>"));
  BOOST_TEST(contains(render_svg({2.4, 0, 0, 0}), "<circle cx=\"600.00\""));
}

BOOST_AUTO_TEST_CASE(an_svg_frame_does_not_depend_on_the_locale,
                     *boost::unit_test::precondition(tendril::testing::DecimalComma::possible)) {
  const std::string expected = render_svg({0.3, 0, -0.1, 0});
  const tendril::testing::DecimalComma comma;
  BOOST_TEST(render_svg({0.3, 0, -0.1, 0}) == expected);
}

BOOST_AUTO_TEST_CASE(states_out_of_sight_leave_only_the_track) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double huge = std::numeric_limits<double>::max();
  for (const tendril::envs::CartPole::State& state :
       {tendril::envs::CartPole::State{nan, 0, 0, 0}, {0, 0, nan, 0}, {huge, 0, 0, 0}, {-huge, 0, 0, 0}}) {
    BOOST_TEST(!contains(render_svg(state), "polygon"));
    const std::string frame = render_terminal(state, {.braille = false});
    BOOST_TEST(!contains(frame, "#"));
    BOOST_TEST(contains(frame, "------"));
  }
}

BOOST_AUTO_TEST_CASE(a_frame_that_is_too_small_is_refused) {
  BOOST_CHECK_THROW(render_terminal({}, {.columns = 19}), tendril::Error);
  BOOST_CHECK_THROW(render_terminal({}, {.rows = 4}), tendril::Error);
}

BOOST_AUTO_TEST_SUITE_END()
