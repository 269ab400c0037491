#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <locale>
#include <map>
#include <regex>
#include <string>

#include "tendril/autograd/ops/join.h"
#include "tendril/tensor/print.h"
#include "tendril/tensor/raw.h"
#include "tests/decimal_comma.h"
#include "tests/golden.h"
#include "tests/make.h"

BOOST_AUTO_TEST_SUITE(print)

using namespace tendril;

namespace {

/// data/print.txt: what PyTorch printed (generate_print_golden.py).
std::map<std::string, std::string> golden() {
  std::map<std::string, std::string> texts;
  std::ifstream file = testing::open_golden(TENDRIL_TEST_DATA "/print.txt");
  std::string line, name;
  while (std::getline(file, line)) {
    if (line.starts_with("== ")) {
      name = line.substr(3);
    } else {
      std::string& text = texts[name];
      text += (text.empty() ? "" : "\n") + line;
    }
  }
  return texts;
}

Tensor floats(const std::vector<float>& values, const Dims& sizes) { return make::from_data(values, sizes); }
Tensor counted(int64_t count, const Dims& sizes, DType dtype = kInt64) {
  return raw::view(make::arange(0, count, 1, dtype), sizes);
}

std::map<std::string, Tensor> tensors() {
  const float inf = INFINITY, nan = NAN;
  const std::vector<Tensor> outlier = {make::ones({500}), floats({12345678.9f}, {1}), make::ones({600})};
  return {
      {"scalar", make::scalar(3.5, kFloat32)},
      {"scalar_int", make::scalar(-7, kInt64)},
      {"whole", floats({1, 2, 3, 4}, {2, 2})},
      {"fractions", floats({1.5, -2.25, 0.125, 1000}, {2, 2})},
      {"sci_ratio", floats({0.001f, 1234.5}, {2})},
      {"sci_small", floats({0.00001f, 0.5}, {2})},
      {"sci_large", floats({1e9, 2e9}, {2})},
      {"whole_ratio", floats({1, 5000}, {2})},
      {"zeros", make::zeros({2, 3})},
      {"negative_zero", floats({-0.0f, 1}, {2})},
      {"nonfinite", floats({inf, -inf, nan, 1}, {4})},
      {"nonfinite_fraction", floats({inf, -inf, nan, 1.25}, {4})},
      {"only_nan", floats({nan, nan}, {2})},
      {"double", make::from_data(std::vector<double>{0.1, 0.2}, {2})},
      {"half", raw::cast(floats({0.1f, 2}, {2}), kFloat16)},
      {"bfloat16", raw::cast(floats({0.1f, 2}, {2}), kBFloat16)},
      {"int64", make::from_data(std::vector<int64_t>{1, -20, 300}, {3})},
      {"int32", make::from_data(std::vector<int32_t>{1, 2, 3, 4}, {2, 2})},
      {"uint8", make::from_data(std::vector<uint8_t>{0, 255}, {2})},
      {"bool", make::from_data(std::vector<bool>{true, false}, {2})},
      {"empty", make::zeros({0})},
      {"empty_2d", make::zeros({2, 0})},
      {"empty_int", make::zeros({0}, kInt64)},
      {"one_element", make::zeros({1, 1, 1})},
      {"cube", counted(24, {2, 3, 4})},
      {"hypercube", raw::binary(Binary::div, counted(16, {2, 2, 2, 2}), 8)},
      {"wrapped", raw::binary(Binary::div, counted(40, {40}), 8)},
      {"wrapped_int", counted(100, {100})},
      {"exactly_1000", counted(1000, {10, 100})},
      {"summarised", counted(1001, {1001})},
      {"summarised_2d", counted(2000, {40, 50}, kFloat32)},
      {"summarised_tall", raw::binary(Binary::div, counted(1200, {300, 4}), 4)},
      {"summarised_wide", counted(1200, {4, 300})},
      {"summarised_3d", counted(2000, {20, 10, 10})},
      {"hidden_outlier", cat(outlier, 0)},
      {"transposed", raw::transpose(counted(6, {2, 3}), 0, 1)},
      {"expanded", raw::expand(floats({1.5}, {1}), {3})},
      {"long_suffix", raw::binary(Binary::mul, raw::binary(Binary::add, counted(8, {8}, kFloat64), 0.5), 100)},
  };
}

/// In one line: what stands after the numbers may be on the next line because of the device's name.
std::string joined(const std::string& text) { return std::regex_replace(text, std::regex(",\\s+"), ", "); }
std::string without_device(const std::string& text) {
  const std::string device = ", device='cuda:0'";
  const std::size_t at = text.find(device);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return text.substr(0, at) + text.substr(at + device.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(tensors_print_as_in_pytorch) {
  const auto expected = golden();
  const auto made = tensors();
  for (const auto& [name, text] : expected) {
    if (name.starts_with("with_")) continue;
    BOOST_TEST_CONTEXT(name) {
      BOOST_REQUIRE(made.contains(name));
      const std::string printed = made.at(name).to_string();
      if (default_device().is_cpu()) {
        BOOST_TEST(printed == text);
      } else {
        BOOST_TEST(without_device(joined(printed)) == joined(text));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(options_are_pytorchs) {
  auto expected = golden();
  auto made = tensors();
  const auto check = [&](const std::string& name, const std::string& tensor, const PrintOptions& options) {
    const std::string text = expected.at("with_" + name);
    set_printoptions(options);
    const std::string printed = made.at(tensor).to_string();
    set_printoptions({});
    if (default_device().is_cpu()) {
      BOOST_TEST(printed == text, name << ": " << printed << "\nexpected\n" << text);
    } else {
      BOOST_TEST(without_device(joined(printed)) == joined(text));
    }
  };
  check("two_digits", "fractions", {.precision = 2});
  check("no_digits", "fractions", {.precision = 0});
  check("always_scientific", "fractions", {.sci_mode = true});
  check("always_scientific_whole", "whole", {.sci_mode = true});
  check("never_scientific", "sci_ratio", {.sci_mode = false});
  check("small_threshold", "cube", {.threshold = 10, .edgeitems = 1});
  check("more_edges", "summarised", {.edgeitems = 5});
  check("narrow", "wrapped_int", {.linewidth = 40});
  check("wide", "wrapped", {.precision = 1, .linewidth = 120});
  check("narrow_suffix", "double", {.linewidth = 20});
  BOOST_CHECK_THROW(set_printoptions({.precision = -1}), Error);
  BOOST_CHECK_THROW(set_printoptions({.linewidth = -1}), Error);
  BOOST_TEST(printoptions().precision == 4);
}

BOOST_AUTO_TEST_CASE(numbers_do_not_depend_on_the_locale,
                     *boost::unit_test::precondition(testing::DecimalComma::possible)) {
  const testing::DecimalComma comma;
  BOOST_REQUIRE(std::to_string(0.5) == "0,500000");
  const auto printed = [](const Tensor& x) { return raw::to(x, kCPU).to_string(); };
  BOOST_TEST(printed(floats({1.5, 1000}, {2})) == "tensor([   1.5000, 1000.0000])");
  BOOST_TEST(printed(floats({1, 2}, {2})) == "tensor([1., 2.])");
  BOOST_TEST(printed(floats({1e9f, 0.5}, {2})) == "tensor([1.0000e+09, 5.0000e-01])");
  BOOST_TEST(std::to_string(0.5) == "0,500000");
}

BOOST_AUTO_TEST_CASE(messages_do_not_depend_on_the_locale) {
  struct Dotted : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Dotted));
  std::string message;
  try {
    detail::raise<Error>(12345, " and ", 0.5);
  } catch (const Error& error) {
    message = error.what();
  }
  std::locale::global(before);
  BOOST_TEST(message == "12345 and 0.5");
}

BOOST_AUTO_TEST_CASE(an_undefined_tensor_says_so) { BOOST_TEST(Tensor().to_string() == "tensor(undefined)"); }

BOOST_AUTO_TEST_SUITE_END()
