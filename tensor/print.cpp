#include <algorithm>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <ostream>

#include "tendril/tensor/detail/classic_numbers.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tendril/tensor/print.h"
#include "tendril/tensor/raw.h"

/// Printing as PyTorch does (torch/_tensor_str.py): one width for all elements, a few items at either end of a
/// dimension where there are many elements.
namespace tendril {
namespace {

std::mutex options_mutex;
PrintOptions current_options;

std::string formatted(const char* format, int precision, double value) {
  const detail::ClassicNumbers numbers;
  char text[512];  // %.100f of 1e308 has 410 digits
  const int length = std::snprintf(text, sizeof text, format, precision, value);
  return std::string(text, static_cast<std::size_t>(length));
}

/// Chooses one notation and width for all elements that are shown.
class Formatter {
 public:
  Formatter(const Tensor& shown, const PrintOptions& how)
      : options(how), dtype_(shown.dtype()), scientific_(how.sci_mode.value_or(false)) {
    if (!is_floating(dtype_)) {
      for (const int64_t value : shown.to_vector<int64_t>()) width_ = std::max(width_, integer(value).size());
      return;
    }
    std::vector<double> values = shown.to_vector<double>();
    std::erase_if(values, [](double v) { return v == 0 || !std::isfinite(v); });
    if (values.empty()) return;
    double smallest = INFINITY, largest = 0;
    for (const double value : values) {
      smallest = std::min(smallest, std::abs(value));
      largest = std::max(largest, std::abs(value));
      whole_ = whole_ && value == std::ceil(value);
    }
    if (!options.sci_mode) scientific_ = largest / smallest > 1000 || largest > 1e8 || (!whole_ && smallest < 1e-4);
    for (const double value : values) width_ = std::max(width_, floating(value).size());
  }

  std::size_t width() const { return width_; }
  const PrintOptions& options;

  std::string operator()(const Tensor& element) const {
    const Scalar value = element.item_scalar();
    const std::string text = is_floating(dtype_) ? floating(value.to<double>()) : integer(value.to<int64_t>());
    return std::string(width_ > text.size() ? width_ - text.size() : 0, ' ') + text;
  }

 private:
  std::string integer(int64_t value) const {
    if (dtype_ == kBool) return value ? "True" : "False";
    return std::to_string(value);
  }
  std::string floating(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    if (scientific_) return formatted("%.*e", options.precision, value);
    if (!whole_) return formatted("%.*f", options.precision, value);
    std::string text = formatted("%.*f", options.precision, value);
    if (const std::size_t point = text.find('.'); point != std::string::npos) text.resize(point);
    return text + '.';
  }

  DType dtype_;
  std::size_t width_ = 1;
  bool whole_ = true;
  bool scientific_;
};

/// The items of a dimension that are shown; -1 stands for the dots.
std::vector<int64_t> shown_items(int64_t size, bool summarise, int64_t edge) {
  std::vector<int64_t> items;
  for (int64_t i = 0; i < size; ++i) {
    if (summarise && size > 2 * edge && i == edge) {
      items.push_back(-1);
      i = size - edge;
      if (i == size) break;
    }
    items.push_back(i);
  }
  return items;
}

/// `x` without what the dots stand for.
Tensor without_hidden(Tensor x, int64_t edge) {
  for (int d = 0; d < x.dim(); ++d) {
    const int64_t size = x.size(d);
    if (size <= 2 * edge) continue;
    std::vector<int64_t> ends;
    for (int64_t i = 0; i < edge; ++i) ends.push_back(i);
    for (int64_t i = size - edge; i < size; ++i) ends.push_back(i);
    x = drivers::index_select(x, d, raw::to(raw::from_data(ends, {2 * edge}), x.device()));
  }
  return x;
}

std::string text_of(const Tensor& x, std::size_t indent, bool summarise, const Formatter& format) {
  if (x.dim() == 0) return format(x);
  std::string text = "[";
  const auto line_width = static_cast<std::size_t>(format.options.linewidth);
  const std::size_t per_line =
      x.dim() > 1 ? 1 : std::max<std::size_t>(1, (line_width - std::min(line_width, indent)) / (format.width() + 2));
  std::size_t shown = 0;
  for (const int64_t item : shown_items(x.size(0), summarise, format.options.edgeitems)) {
    if (shown > 0) {
      const bool new_line = x.dim() > 1 || shown % per_line == 0;
      text += new_line ? "," : ", ";
      if (new_line)
        text += std::string(static_cast<std::size_t>(std::max(x.dim() - 1, 1)), '\n') + std::string(indent + 1, ' ');
    }
    ++shown;
    if (item >= 0) {
      text += text_of(raw::select(x, 0, item), indent + 1, summarise, format);
    } else {
      text += x.dim() > 1 ? "..." : " ...";
    }
  }
  return text + "]";
}

}  // namespace

void set_printoptions(const PrintOptions& options) {
  TENDRIL_CHECK(options.precision >= 0 && options.precision <= 100,
                "set_printoptions: expected a precision of 0 to 100, got ", options.precision);
  TENDRIL_CHECK(options.threshold >= 0 && options.edgeitems >= 0 && options.linewidth >= 0,
                "set_printoptions: expected 0 or more, got threshold ", options.threshold, ", edgeitems ",
                options.edgeitems, ", linewidth ", options.linewidth);
  TENDRIL_CHECK(options.edgeitems <= 1'000'000, "set_printoptions: expected at most 1000000 edgeitems, got ",
                options.edgeitems);
  const std::lock_guard lock(options_mutex);
  current_options = options;
}

PrintOptions printoptions() {
  const std::lock_guard lock(options_mutex);
  return current_options;
}

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const PrintOptions options = printoptions();
  const std::string prefix = "tensor(";
  std::vector<std::string> suffixes;
  std::string text = prefix;
  if (!device().is_cpu()) suffixes.push_back("device='" + std::string("cuda:") + std::to_string(device().index) + "'");
  if (numel() == 0) {
    text += "[]";
    if (dim() != 1) {
      std::string size = "size=(";
      for (int d = 0; d < dim(); ++d) size += (d ? ", " : "") + std::to_string(sizes()[d]);
      suffixes.push_back(size + ")");
    }
    if (dtype() != kFloat32) suffixes.push_back(std::string("dtype=") + name_of(dtype()));
  } else {
    const bool summarise = numel() > options.threshold;
    // Of much on a device only what is shown is copied, element by element.
    const Tensor shown = summarise ? *this : raw::to(*this, kCPU);
    text += text_of(shown, prefix.size(), summarise,
                    Formatter(summarise ? without_hidden(*this, options.edgeitems) : shown, options));
    if (dtype() != kFloat32 && dtype() != kInt64 && dtype() != kBool) {
      suffixes.push_back(std::string("dtype=") + name_of(dtype()));
    }
  }
  if (const History* history = impl_->current_history()) suffixes.push_back(history->description());

  const std::size_t last_newline = text.rfind('\n');
  std::size_t line =
      text.size() - (last_newline == std::string::npos ? static_cast<std::size_t>(-1) : last_newline) + 1;
  for (const std::string& suffix : suffixes) {
    if (line + suffix.size() + 2 > static_cast<std::size_t>(options.linewidth)) {
      text += ",\n" + std::string(prefix.size(), ' ') + suffix;
      line = prefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.to_string(); }

}  // namespace tendril
