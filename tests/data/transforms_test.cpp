// Beside torchvision's functions and Pillow's resize (tests/data/golden.py).
#include "tendril/data/transforms.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <iomanip>
#include <set>
#include <sstream>
#include <type_traits>

#include "tendril/data/dataset.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/golden.h"
#include "tests/seed.h"

BOOST_AUTO_TEST_SUITE(transforms)

using namespace tendril;
using namespace tendril::testing;

namespace {

const Golden& golden() {
  static const Golden loaded(TENDRIL_TEST_DATA "/transforms.txt");
  return loaded;
}
Tensor bytes() { return raw::cast(golden().get("image"), kUInt8); }

void check(const Tensor& got, const std::string& name, double tolerance = 0) {
  BOOST_TEST(difference(raw::cast(got, kFloat64), golden().get(name), 0, tolerance) == "", name);
}

std::string number(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << value;
  return out.str();
}

}  // namespace

BOOST_AUTO_TEST_CASE(images_are_changed_as_torchvision_changes_them) {
  const Tensor image = bytes(), real = data::to_float(image);
  check(data::normalize(real, {0.5, 0.4, 0.3}, {0.2, 0.25, 0.3}), "normalized", 1e-6);
  check(data::horizontal_flip(image), "flipped");
  check(data::pad_image(image, 2, 5), "padded");
  for (const auto& [height, width] : {std::pair(4, 4), {5, 6}, {13, 4}, {6, 8}, {20, 20}}) {
    check(data::center_crop(image, height, width), "center_" + std::to_string(height) + "_" + std::to_string(width));
  }
  for (const auto& [height, width] : {std::pair(5, 3), {22, 14}, {11, 5}, {3, 9}, {1, 1}}) {
    const std::string size = std::to_string(height) + "_" + std::to_string(width);
    check(data::resize(real, height, width), "resized_" + size, 1e-6);
    check(data::resize(image, height, width), "resized_bytes_" + size, 1);  // Pillow rounds in between
  }
}

BOOST_AUTO_TEST_CASE(colours_are_changed_as_torchvision_changes_them) {
  const Tensor real = data::to_float(bytes());
  for (const double factor : {0.0, 0.4, 1.7}) {
    check(data::adjust_brightness(real, factor), "brightness_" + number(factor), 1e-6);
    check(data::adjust_contrast(real, factor), "contrast_" + number(factor), 1e-6);
    check(data::adjust_saturation(real, factor), "saturation_" + number(factor), 1e-6);
  }
  for (const double turn : {-0.5, -0.2, 0.3}) check(data::adjust_hue(real, turn), "hue_" + number(turn), 1e-5);
}

BOOST_AUTO_TEST_CASE(random_parts_are_parts_of_the_image_and_all_of_them_come) {
  const Tensor image = raw::cast(raw::view(raw::arange(0, 30), {1, 5, 6}), kUInt8);
  const data::RandomCrop crop{4, 4};
  Generator random(test_seed());
  std::set<int64_t> corners;
  for (int i = 0; i < 200; ++i) {
    const Tensor part = crop(image, random);
    const auto corner = raw::select(raw::select(raw::select(part, 0, 0), 0, 0), 0, 0).item<int64_t>();
    corners.insert(corner);
    BOOST_TEST_REQUIRE(raw::equal(part, data::crop(image, corner / 6, corner % 6, 4, 4)));
  }
  BOOST_TEST(corners == (std::set<int64_t>{0, 1, 2, 6, 7, 8}), boost::test_tools::per_element());
  const Tensor padded = data::RandomCrop{9, 10, {.padding = 2, .value = 7}}(image, random);
  BOOST_TEST(raw::equal(padded, data::pad_image(image, 2, 7)));
}

BOOST_AUTO_TEST_CASE(a_single_size_is_a_square_or_the_shorter_side) {
  const Tensor image = bytes(), sideways = raw::transpose(image, 1, 2);  // 11 x 7, 7 x 11
  Generator random(test_seed());
  BOOST_TEST((data::CenterCrop{4}(image).sizes() == Dims{3, 4, 4}));
  BOOST_TEST(raw::equal(data::CenterCrop{4}(image), data::center_crop(image, 4)));
  BOOST_TEST((data::RandomCrop{5}(image, random).sizes() == Dims{3, 5, 5}));
  BOOST_TEST((data::RandomCrop{12, {.padding = 3}}(image, random).sizes() == Dims{3, 12, 12}));
  BOOST_TEST((data::RandomResizedCrop{6}(image, random).sizes() == Dims{3, 6, 6}));
  BOOST_TEST((data::RandomResizedCrop{6, {.scale = {0.5, 1}}}(image, random).sizes() == Dims{3, 6, 6}));
  for (const auto& [size, longer] : {std::pair(1, 1), {5, 7}, {7, 11}, {10, 15}, {14, 22}}) {  // torchvision's
    BOOST_TEST((data::Resize{size}(image).sizes() == Dims{3, longer, size}), size);
    BOOST_TEST((data::Resize{size}(sideways).sizes() == Dims{3, size, longer}), size);
  }
  BOOST_TEST(raw::equal(data::Resize{5}(image), data::resize(image, 7, 5)));
  BOOST_TEST((data::Resize(2, 9)(image).sizes() == Dims{3, 2, 9}));
  static_assert(!std::is_default_constructible_v<data::Resize> && !std::is_default_constructible_v<data::CenterCrop>);
  static_assert(!std::is_constructible_v<data::Normalize, std::vector<double>>);  // a deviation must be given
}

BOOST_AUTO_TEST_CASE(half_of_the_images_are_flipped) {
  const Tensor image = bytes(), flipped = data::horizontal_flip(image);
  Generator random(test_seed());
  int count = 0;
  for (int i = 0; i < 400; ++i) {
    const Tensor got = data::RandomHorizontalFlip{}(image, random);
    BOOST_TEST_REQUIRE((raw::equal(got, image) || raw::equal(got, flipped)));
    count += raw::equal(got, flipped);
  }
  BOOST_TEST(std::abs(count - 200) < 70);  // 7 standard deviations
  BOOST_TEST(raw::equal(data::RandomHorizontalFlip{1.0}(image, random), flipped));
}

BOOST_AUTO_TEST_CASE(resized_parts_have_the_size_that_is_asked_for_and_stay_within_the_image) {
  const Tensor image = data::to_float(bytes());
  Generator random(test_seed()), same(test_seed()), other(test_seed(1));
  const data::RandomResizedCrop crop{8, 8};
  const auto values = image.to_vector<double>();
  const auto [least, most] = std::ranges::minmax(values);
  bool differs = false;
  for (int i = 0; i < 50; ++i) {
    const Tensor part = crop(image, random);
    BOOST_TEST_REQUIRE((part.sizes() == Dims{3, 8, 8}));
    BOOST_TEST_REQUIRE(raw::equal(part, crop(image, same)));
    differs |= !raw::equal(part, crop(image, other));
    for (const double value : part.to_vector<double>())
      BOOST_TEST_REQUIRE((value > least - 1e-6 && value < most + 1e-6));
  }
  BOOST_TEST(differs);
  // Where no part fits, the largest one in the middle that has the ratio: 11 x 7 to a ratio of 4 is 2 x 7.
  const Tensor wide = data::RandomResizedCrop{2, 7, {.scale = {1, 1}, .ratio = {4, 4}}}(image, random);
  BOOST_TEST(difference(wide, data::crop(image, 4, 0, 2, 7), 0, 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(jitter_without_strength_changes_nothing_and_follows_from_the_generator) {
  const Tensor image = data::to_float(bytes());
  Generator random(test_seed()), same(test_seed());
  BOOST_TEST(raw::equal(data::ColorJitter{}(image, random), image));
  data::ColorJitter{}(image, same);
  const data::ColorJitter jitter{0.4, 0.4, 0.4, 0.1};
  const Tensor one = jitter(image, random);
  BOOST_TEST(raw::equal(one, jitter(image, same)));
  BOOST_TEST(!raw::equal(one, jitter(image, random)));
  BOOST_TEST(!raw::equal(one, image));
}

BOOST_AUTO_TEST_CASE(transforms_are_done_to_the_images_of_a_dataset) {
  const Tensor images = raw::view(raw::arange(0, 24, 1, kUInt8), {2, 1, 3, 4}), labels = raw::arange(5, 7);
  const data::Transform both = data::compose({data::CenterCrop{1, 2}, data::ToFloat{}, data::Normalize{{0}, {0.5}}});
  const data::Dataset changed = data::map(data::TensorDataset(images, labels), data::on_image(both));
  const auto [image, label] = changed.get(1);
  BOOST_TEST(label.item<int64_t>() == 6);
  BOOST_TEST(difference(image, raw::from_data(std::vector<float>{34 / 255.f, 36 / 255.f}, {1, 1, 2}), 1e-6) == "");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_by_name) {
  const Tensor image = bytes(), real = data::to_float(image);
  Generator random(test_seed());
  const auto refuses = [](const auto& call, const auto&... parts) {
    BOOST_CHECK_EXCEPTION(call(), Error, says(parts...));
  };
  refuses([&] { data::crop(image, 8, 0, 4, 4); }, "crop", "from row 8", "11 x 7");
  refuses([&] { data::crop(raw::select(image, 0, 0), 0, 0, 1, 1); }, "[11, 7]", "[channels, height, width]");
  refuses([&] { data::normalize(image, {0}, {1}); }, "normalize", "uint8");
  refuses([&] { data::normalize(real, {0, 0}, {1}); }, "mean", "got 2", "3 or 1");
  refuses([&] { data::normalize(real, {0}, {0}); }, "stddev", "got 0");
  refuses([&] { data::resize(image, 0, 2); }, "resize", "0 x 2");
  refuses([&] { data::resize(raw::cast(image, kInt64), 2, 2); }, "resize", "int64");
  refuses([&] { data::adjust_contrast(image, 1); }, "adjust_contrast", "uint8", "to_float");
  refuses([&] { data::adjust_saturation(raw::narrow(real, 0, 0, 1), 1); }, "3 channels");
  refuses([&] { data::adjust_brightness(real, -1); }, "factor", "got -1");
  refuses([&] { data::adjust_hue(real, 0.6); }, "turn", "got 0.6");
  refuses([&] { data::RandomCrop{12, 3}(image, random); }, "RandomCrop", "12 x 3", "11 x 7");
  refuses([] { (void)data::Resize{0}; }, "Resize: size: got 0,", "expected 1 or more");
  refuses([] { (void)data::Resize(3, 0); }, "Resize: size: got 3 x 0");
  refuses([] { (void)data::CenterCrop{-1}; }, "CenterCrop: size: got -1 x -1");
  refuses([] { (void)data::RandomCrop{0}; }, "RandomCrop: size: got 0 x 0");
  refuses([] { (void)data::RandomResizedCrop{0}; }, "RandomResizedCrop: size: got 0 x 0");
  refuses([&] { data::resize(image, 0); }, "resize", "[3, 11, 7] to 0");
  refuses([&] { data::RandomHorizontalFlip{1.5}(image, random); }, "got 1.5");
  refuses([&] { data::RandomResizedCrop{2, 2, {.scale = {0.5, 2}}}(image, random); }, "scale");
  refuses([&] { data::ColorJitter{.hue = 0.7}(real, random); }, "hue", "got 0.7");
  refuses([&] { data::pad_image(image, -1); }, "padding", "got -1");
  refuses([&] { data::to_float(Tensor()); }, "to_float", "undefined");
}

BOOST_AUTO_TEST_SUITE_END()
