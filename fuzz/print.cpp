// How a tensor is printed: any options, any element, any sizes and strides. What is printed with enough digits is read
// back as the same elements.
#include "tendril/tensor/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "fuzz/input.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

using namespace tendril;
using fuzz::require;

namespace {

constexpr int64_t kMostElements = 96, kMostPrinted = 512;

bool same(const PrintOptions& a, const PrintOptions& b) {
  return a.precision == b.precision && a.threshold == b.threshold && a.edgeitems == b.edgeitems &&
         a.linewidth == b.linewidth && a.sci_mode == b.sci_mode;
}

/// As set_printoptions takes them or refuses them, and then changes nothing.
void set_options(fuzz::Input& input) {
  PrintOptions options;
  options.precision = input.number<int16_t>();
  options.threshold = input.number<int64_t>();
  options.edgeitems = input.number<int64_t>();
  options.linewidth = input.number<int64_t>();
  const auto mode = input.number<uint8_t>() % 3;
  if (mode != 0) options.sci_mode = mode == 1;
  const PrintOptions before = printoptions();
  try {
    set_printoptions(options);
    require(same(printoptions(), options));
  } catch (const Error&) {
    require(same(printoptions(), before));
  }
}

Tensor tensor_of(fuzz::Input& input) {
  constexpr DType kTypes[] = {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kBool, kFloat16, kBFloat16};
  const DType dtype = kTypes[input.number<uint8_t>() % 8];
  const int dims = input.number<uint8_t>() % 7;
  const auto view = input.number<uint8_t>();
  std::vector<int64_t> sizes;
  int64_t numel = 1;
  for (int d = 0; d < dims; ++d) {
    const int64_t size = input.number<uint8_t>() % 40;
    sizes.push_back(numel * size > kMostElements ? 1 : size);
    numel *= sizes.back();
  }
  Tensor x = raw::zeros(Dims(sizes), dtype == kBool ? kUInt8 : dtype);
  const auto bytes = input.rest();
  const std::size_t room = static_cast<std::size_t>(numel) * size_of(x.dtype());
  if (room > 0 && !bytes.empty()) std::memcpy(x.raw_data(), bytes.data(), std::min(room, bytes.size()));
  x = raw::cast(x, dtype);
  if ((view & 1) != 0 && dims >= 2) x = raw::transpose(x, 0, dims - 1);
  if ((view & 2) != 0 && dims >= 1 && x.size(0) > 1) x = x.slice(0, 0, INT64_MAX, 2);
  if ((view & 4) != 0 && dims >= 1 && x.numel() > 0) {  // many times the same: as large as it likes
    std::vector<int64_t> wide{int64_t{1} << (view >> 3)};
    for (int d = 0; d < dims; ++d) wide.push_back(x.size(d));
    x = raw::expand(x, Dims(wide));
  }
  return x;
}

/// What stands between the brackets, without the dots.
std::vector<std::string> elements_of(const std::string& text, int dims) {
  const std::size_t begin = std::strlen("tensor(");
  const std::size_t end = dims > 0 ? text.rfind(']') : text.find_first_of(",)", begin);
  require(end != std::string::npos);
  std::vector<std::string> found(1);
  for (std::size_t at = begin; at < end; ++at) {
    if (text[at] != '\0' && std::strchr("[], \n", text[at]) == nullptr) {
      found.back() += text[at];
    } else if (!found.back().empty()) {
      found.emplace_back();
    }
  }
  if (found.back().empty()) found.pop_back();
  return found;
}

void check_read_back(const Tensor& x) {
  set_printoptions({.precision = 17, .threshold = INT64_MAX, .sci_mode = true});
  const std::vector<std::string> texts = elements_of(x.to_string(), static_cast<int>(x.dim()));
  require(texts.size() == static_cast<std::size_t>(x.numel()));
  if (!is_floating(x.dtype())) {
    const std::vector<int64_t> values = x.to_vector<int64_t>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(texts[i] == (x.dtype() == kBool ? (values[i] != 0 ? "True" : "False") : std::to_string(values[i])));
    }
    return;
  }
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    double value = 0;
    const auto [end, error] = std::from_chars(texts[i].data(), texts[i].data() + texts[i].size(), value);
    require(end == texts[i].data() + texts[i].size());
    require(error == std::errc() || error == std::errc::result_out_of_range);  // of denormal numbers
    if (error == std::errc()) require(std::isnan(values[i]) ? std::isnan(value) : value == values[i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  set_printoptions({});  // whatever the input before has left
  fuzz::Input input(data, size);
  set_options(input);
  const Tensor x = tensor_of(input);
  // All elements of a huge one are the caller's wish, and take as long as they take.
  if (x.numel() > kMostPrinted) {
    PrintOptions options = printoptions();
    options.threshold = std::min<int64_t>(options.threshold, kMostPrinted);
    options.edgeitems = std::min<int64_t>(options.edgeitems, 1 << 6);
    set_printoptions(options);
  }
  const std::string text = x.to_string();
  require(text.starts_with("tensor(") && text.ends_with(")"));
  require(std::count(text.begin(), text.end(), '[') == std::count(text.begin(), text.end(), ']'));
  std::ostringstream out;
  out << x;
  require(out.str() == text);
  if (x.numel() > 0 && x.numel() <= kMostElements) check_read_back(x);
  return 0;
}
