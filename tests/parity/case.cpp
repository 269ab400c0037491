#include "tests/parity/case.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

namespace tendril::parity {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The numbers between punctuation.
std::vector<int64_t> integers_in(const std::string& text) {
  std::vector<int64_t> numbers;
  for (std::size_t at = 0; (at = text.find_first_of("-0123456789", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of("-0123456789", at), text.size());
    numbers.push_back(std::stoll(text.substr(at, end - at)));
    at = end;
  }
  return numbers;
}

Input input_from(const std::vector<std::string>& left, std::vector<std::string> values) {
  Input input{
      numbers_from(left[0]).at(0), dtype_called(left.at(1)), dims_from(left.at(2)), {}, 0, false, std::move(values)};
  for (std::size_t i = 3; i < left.size(); ++i) {
    if (left[i] == "grad") {
      input.requires_grad = true;
    } else {
      const std::size_t plus = left[i].find('+');
      input.strides = dims_from(left[i].substr(0, plus));
      input.offset = std::stoll(left[i].substr(plus + 1));
    }
  }
  return input;
}

Expectation expectation_from(const std::vector<std::string>& left, std::vector<std::string> values) {
  const std::string& grad = left.at(4);
  Expectation expected{numbers_from(left.at(1)).at(0),
                       dtype_called(left.at(2)),
                       dims_from(left.at(3)),
                       grad == "grad"  ? RequiresGrad::yes
                       : grad == "any" ? RequiresGrad::any
                                       : RequiresGrad::no,
                       std::move(values),
                       {}};
  for (std::string& value : expected.values) {
    const std::size_t tilde = value.find('~');
    expected.slack.push_back(tilde == std::string::npos ? 0 : real_from(value.substr(tilde + 1)));
    value.resize(std::min(tilde, value.size()));
  }
  return expected;
}

void add_line(Case& to, const std::string& line) {
  const std::size_t equals = line.find(" =");
  const std::vector<std::string> left = words_of(line.substr(0, equals));
  const std::vector<std::string> right =
      equals == std::string::npos ? std::vector<std::string>{} : words_of(line.substr(equals + 2));
  if (left[0] == "raises") {
    to.raises = true;
  } else if (left[0] == "differs") {
    to.differs = line.substr(8);
  } else if (left[0] == "refuses") {
    to.we_refuse = true;
  } else if (left[0] == "?") {
    to.expected.push_back(expectation_from(left, right));
  } else if (left[0] == "!") {
    to.ours.push_back(expectation_from(left, right));
  } else if (left.size() == 1) {
    to.nodes.push_back(Step{numbers_from(left[0]), right.at(0), {right.begin() + 1, right.end()}});
  } else {
    to.nodes.push_back(input_from(left, right));
  }
}

}  // namespace

DType dtype_called(const std::string& name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  throw Error("no dtype is called '" + name + "'");
}

double real_from(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);  // std::stod refuses denormal numbers
  TENDRIL_CHECK(!text.empty() && *end == 0, "expected a number, got '", text, "'");
  return value;
}

Dims dims_from(const std::string& text) { return integers_in(text); }

std::vector<int> numbers_from(const std::string& text) {
  const std::vector<int64_t> numbers = integers_in(text);
  return {numbers.begin(), numbers.end()};
}

Tensor Input::make() const {
  Tensor storage;
  const Dims length{static_cast<int64_t>(values.size())};
  if (is_floating(dtype)) {
    std::vector<double> elements;
    for (const std::string& value : values) elements.push_back(real_from(value));
    storage = from_vector(elements, length, {.dtype = dtype});
  } else {
    std::vector<int64_t> elements;
    for (const std::string& value : values) elements.push_back(std::stoll(value));
    storage = from_vector(elements, length, {.dtype = dtype});
  }
  Tensor x = strides ? raw::as_strided(storage, sizes, *strides, offset) : raw::view(storage, sizes);
  return requires_grad ? x.requires_grad_() : x;
}

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  TENDRIL_CHECK(file, "cases: ", path, " cannot be opened");
  std::vector<Case> cases;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    const std::string place = path + ":" + std::to_string(line_number);
    if (line.starts_with("case ")) {
      cases.push_back({line.substr(5), place, {}, {}, false, {}, false, {}});
      continue;
    }
    TENDRIL_CHECK(!cases.empty(), place, ": expected a line 'case NAME' first");
    try {
      add_line(cases.back(), line);
    } catch (const std::exception& error) {
      throw Error(place + ": " + error.what());
    }
  }
  return cases;
}

}  // namespace tendril::parity
