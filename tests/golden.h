#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::testing {

/// A golden file behind the comments at its start, which say what made it.
inline std::ifstream open_golden(const std::string& path) {
  std::ifstream file(path);
  TENDRIL_CHECK(file, "golden file ", path, " cannot be opened");
  for (std::string comment; file.peek() == '#';) std::getline(file, comment);
  return file;
}

/// Named tensors from a text file made by a script beside the tests. Two lines a tensor, "#" starts a comment:
///
///     name dtype size0 size1 ...        (dtype: float64 or int64; no sizes: a 0-d tensor)
///     value0 value1 ...                 (row-major; as Python prints them, inf and nan included)
class Golden {
 public:
  explicit Golden(const std::string& path) : path_(path) {
    std::ifstream file(path);
    TENDRIL_CHECK(file, "golden file ", path, " cannot be opened");
    for (std::string header, values; next_line(file, header);) {
      std::istringstream words(header);
      std::string name, dtype;
      words >> name >> dtype;
      Dims sizes;
      for (int64_t size; words >> size;) sizes.push_back(size);
      TENDRIL_CHECK((dtype == "float64" || dtype == "int64") && std::getline(file, values), "golden file ", path, ": '",
                    header, "' is not a header followed by values");
      TENDRIL_CHECK(tensors_.emplace(name, parse(name, dtype, sizes, values)).second, "golden file ", path, ": '", name,
                    "' is there twice");
    }
  }

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// A copy of its own, on the default device, floating values in `dtype`.
  Tensor get(const std::string& name, DType dtype = kFloat64) const {
    const auto found = tensors_.find(name);
    TENDRIL_CHECK(found != tensors_.end(), "golden file ", path_, " has no '", name, "'");
    const Tensor& tensor = found->second;
    const Tensor values = tensor.dtype() == kInt64 ? tensor : raw::cast(tensor, dtype);
    Tensor copy = raw::empty(values.sizes(), values.dtype(), default_device());
    raw::copy_(copy, values);
    return copy;
  }

 private:
  static bool next_line(std::istream& file, std::string& line) {
    while (std::getline(file, line)) {
      if (!line.empty() && line[0] != '#') return true;
    }
    return false;
  }

  template <class T>
  Tensor parse_as(const std::string& name, const Dims& sizes, const std::string& text) const {
    std::istringstream words(text);
    std::vector<T> values;
    for (std::string word; words >> word;) {
      values.push_back(std::is_same_v<T, int64_t> ? static_cast<T>(std::stoll(word)) : static_cast<T>(std::stod(word)));
    }
    TENDRIL_CHECK(static_cast<int64_t>(values.size()) == numel_of(sizes), "golden file ", path_, ": '", name, "' has ",
                  values.size(), " values, expected ", numel_of(sizes));
    return raw::from_data(values, sizes);
  }
  Tensor parse(const std::string& name, const std::string& dtype, const Dims& sizes, const std::string& text) const {
    return dtype == "int64" ? parse_as<int64_t>(name, sizes, text) : parse_as<double>(name, sizes, text);
  }

  std::string path_;
  std::map<std::string, Tensor> tensors_;
};

/// "" if `actual` has the sizes of `expected` and each element is within atol + rtol |expected|; otherwise what is
/// wrong. Equal infinities are close, and so are two NaNs. Usage: BOOST_TEST(difference(a, b, 1e-12) == "").
inline std::string difference(const Tensor& actual, const Tensor& expected, double rtol, double atol = 0) {
  std::ostringstream out;
  out.precision(17);
  if (!actual.defined()) return "is undefined";
  if (!(actual.sizes() == expected.sizes())) {
    out << "has shape " << actual.sizes() << ", expected " << expected.sizes();
    return out.str();
  }
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]));
    if (same || std::abs(a[i] - e[i]) <= atol + rtol * std::abs(e[i])) continue;
    out << "element " << i << " is " << a[i] << ", expected " << e[i] << ", off by " << a[i] - e[i];
    return out.str();
  }
  return "";
}

}  // namespace tendril::testing
