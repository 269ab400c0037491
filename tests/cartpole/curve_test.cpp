#include "curve.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/contains.h"
#include "tests/decimal_comma.h"

using examples::CurvePoint;

namespace {

const std::vector<CurvePoint> kPoints = {{1, 20, 1, 45, 0.125}, {2, 500, 25.95, 1045, 0.5}};

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_SUITE(curve)

BOOST_AUTO_TEST_CASE(the_csv_has_a_line_an_episode) {
  BOOST_TEST(examples::curve_csv(kPoints) ==
             "episode,reward,running_reward,steps,seconds\n1,20,1,45,0.125\n2,500,25.95,1045,0.5\n");
}

BOOST_AUTO_TEST_CASE(curves_do_not_depend_on_the_locale,
                     *boost::unit_test::precondition(tendril::testing::DecimalComma::possible)) {
  const std::string csv = examples::curve_csv(kPoints), svg = examples::curve_svg(kPoints, 475, "title");
  const tendril::testing::DecimalComma comma;
  BOOST_TEST(examples::curve_csv(kPoints) == csv);
  BOOST_TEST(examples::curve_svg(kPoints, 475, "title") == svg);
}

BOOST_AUTO_TEST_CASE(the_svg_shows_both_curves_the_threshold_and_the_title) {
  const std::string svg = examples::curve_svg(kPoints, 475, "title");
  BOOST_TEST(svg.rfind("<svg ", 0) == 0U);
  BOOST_TEST(contains(svg, ">title</text>"));
  BOOST_TEST(contains(svg, "solved above 475"));
  const auto first = svg.find("<polyline");
  BOOST_REQUIRE(first != std::string::npos);
  BOOST_TEST(svg.find("<polyline", first + 1) != std::string::npos);
  BOOST_TEST(!contains(svg, "nan"));
}

BOOST_AUTO_TEST_CASE(a_curve_without_points_is_still_a_picture) {
  const std::string svg = examples::curve_svg({}, 475, "nothing");
  BOOST_TEST(contains(svg, "</svg>"));
  BOOST_TEST(!contains(svg, "nan"));
  BOOST_TEST(!contains(svg, "inf"));
}

BOOST_AUTO_TEST_CASE(files_are_written_into_folders_that_are_made) {
  const auto folder = std::filesystem::temp_directory_path() / ("cartpole_curve_test_" + std::to_string(getpid()));
  const auto path = folder / "deep" / "file.txt";
  examples::write_file(path, "text");
  std::ifstream in(path);
  BOOST_TEST(std::string(std::istreambuf_iterator<char>(in), {}) == "text");
  BOOST_CHECK_EXCEPTION(examples::write_file(folder / "deep", "text"), std::runtime_error,
                        [](const auto& error) { return contains(error.what(), "cannot write"); });
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()
