#include "tendril/data/csv.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "tendril/data/detail/parse.h"
#include "tendril/tensor/detail/classic_numbers.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {

/// Goes through the text once, and notes where fields begin and end.
class CsvParser {
 public:
  static CsvTable read(const std::shared_ptr<files::detail::Bytes>& file, const CsvOptions& options,
                       const std::string& what) {
    CsvTable table;
    table.file_ = file;
    table.text_ = {reinterpret_cast<const char*>(file->all().data()), file->size()};
    table.what_ = what;
    table.quote_ = options.quote;
    CsvParser(table, options).parse();
    return table;
  }

 private:
  CsvParser(CsvTable& table, const CsvOptions& options)
      : table_(table), options_(options), text_(table.text_), what_(table.what_) {}

  void parse() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte-order mark
    while (at_ < text_.size()) {
      if (end_of_line()) continue;  // an empty line
      row();
    }
  }

  bool end_of_line() {
    if (at_ >= text_.size() || (text_[at_] != '\n' && text_[at_] != '\r')) return false;
    at_ += text_.substr(at_).starts_with("\r\n") ? 2 : 1;
    ++line_;
    return true;
  }

  void row() {
    const int64_t begun = line_;
    std::vector<CsvTable::Field> fields;
    do {
      fields.push_back(field());
    } while (accept(options_.delimiter));
    const bool ended = at_ == text_.size() || end_of_line();
    TENDRIL_CHECK(ended, what_, ": line ", line_, ": there is text behind a closing quote");
    const auto count = static_cast<int64_t>(fields.size());
    if (table_.columns_ == 0) table_.columns_ = count;
    TENDRIL_CHECK(count == table_.columns_, what_, ": line ", begun, " has ", count, " fields, expected ",
                  table_.columns_);
    if (options_.header && table_.header_.empty()) {
      for (const CsvTable::Field& name : fields) table_.header_.push_back(table_.text_of(name));
      return;
    }
    table_.lines_.push_back(begun);
    table_.fields_.insert(table_.fields_.end(), fields.begin(), fields.end());
  }

  bool accept(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  CsvTable::Field field() {
    if (accept(options_.quote)) return quoted();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != options_.delimiter && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
    return {begin, at_, false};
  }

  CsvTable::Field quoted() {
    const std::size_t begin = at_;
    const int64_t begun = line_;
    while (true) {
      TENDRIL_CHECK(at_ < text_.size(), what_, ": line ", begun, ": a quote is not closed");
      if (end_of_line()) continue;
      if (!accept(options_.quote)) {
        ++at_;
      } else if (!accept(options_.quote)) {  // two of them are one in the text
        return {begin, at_ - 1, true};
      }
    }
  }

  CsvTable& table_;
  const CsvOptions& options_;
  const std::string_view text_;
  const std::string& what_;
  std::size_t at_ = 0;
  int64_t line_ = 1;
};

namespace detail {

CsvTable parse_csv(const std::shared_ptr<Bytes>& file, const CsvOptions& options, const std::string& what) {
  const auto special = [](char c) { return c == '\n' || c == '\r'; };
  TENDRIL_CHECK(options.delimiter != options.quote && !special(options.delimiter) && !special(options.quote),
                "load_csv: delimiter and quote are to differ and to be no line ends");
  return CsvParser::read(file, options, what);
}

}  // namespace detail

namespace {

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class T>
bool read_number(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {  // of both ends: one has a nearest number
      const tendril::detail::ClassicNumbers as_in_c;
      value = std::strtod(std::string(text).c_str(), nullptr);
      return std::isfinite(value);
    }
  }
  return error == std::errc();
}

}  // namespace

std::string CsvTable::text_of(const Field& field) const {
  std::string text(text_.substr(field.begin, field.end - field.begin));
  if (!field.quoted) return text;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[kept++] = text[i];
    if (text[i] == quote_) ++i;  // the second of two
  }
  text.resize(kept);
  return text;
}

int64_t CsvTable::column(std::string_view name) const {
  int64_t found = -1;
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] != name) continue;
    TENDRIL_CHECK(found < 0, what_, ": several columns have the name '", name, "'");
    found = static_cast<int64_t>(i);
  }
  std::string names;
  for (const std::string& known : header_) names += (names.empty() ? "'" : ", '") + known + "'";
  TENDRIL_CHECK(found >= 0, what_, ": there is no column '", name, "', only ",
                names.empty() ? "ones without names" : names);
  return found;
}

std::string CsvTable::text(int64_t row, int64_t column) const {
  TENDRIL_CHECK_AS(IndexError, row >= 0 && row < rows() && column >= 0 && column < columns_, what_, ": row ", row,
                   ", column ", column, " of ", rows(), " rows and ", columns_, " columns");
  return text_of(fields_[static_cast<std::size_t>(row * columns_ + column)]);
}

int64_t CsvTable::line(int64_t row) const {
  TENDRIL_CHECK_AS(IndexError, row >= 0 && row < rows(), what_, ": row ", row, " of ", rows());
  return lines_[static_cast<std::size_t>(row)];
}

namespace {
/// A finite number that is infinite in float32.
bool is_beyond(DType dtype, double value) {
  return dtype == kFloat32 && std::isfinite(value) && !std::isfinite(static_cast<float>(value));
}
}  // namespace

template <class T>
Tensor CsvTable::numbers_of(const std::vector<int64_t>& columns, const NumberOptions& options) const {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(rows()) * columns.size());
  for (int64_t row = 0; row < rows(); ++row) {
    for (const int64_t column : columns) {
      const Field& field = fields_[static_cast<std::size_t>(row * columns_ + column)];
      const std::string_view text = without_spaces(text_.substr(field.begin, field.end - field.begin));
      T value{};
      if (text.empty() && options.missing) {
        value = static_cast<T>(*options.missing);
      } else if (!read_number(text, value) || is_beyond(options.dtype, static_cast<double>(value))) {
        std::string name;
        if (!header_.empty()) name = " ('" + header_[static_cast<std::size_t>(column)] + "')";
        tendril::detail::raise<Error>(what_, ": line ", line(row), ", column ", column + 1, name, ": got '",
                                      text_of(field).substr(0, 40), "', expected a number of ", options.dtype);
      }
      values.push_back(value);
    }
  }
  return raw::from_data(values, {rows(), static_cast<int64_t>(columns.size())});
}

Tensor CsvTable::numbers(const std::vector<int64_t>& columns, const NumberOptions& options) const {
  TENDRIL_CHECK_AS(DTypeError, options.dtype == kFloat32 || options.dtype == kFloat64 || options.dtype == kInt64,
                   "CsvTable::numbers: dtype: got ", options.dtype, ", expected float32, float64 or int64");
  TENDRIL_CHECK(options.dtype != kInt64 || !options.missing ||
                    (std::trunc(*options.missing) == *options.missing && Scalar(*options.missing).fits(kInt64)),
                "CsvTable::numbers: missing: got ", options.missing.value_or(0), ", which int64 does not hold");
  TENDRIL_CHECK(!options.missing || !is_beyond(options.dtype, *options.missing), "CsvTable::numbers: missing: got ",
                options.missing.value_or(0), ", which float32 does not hold");
  for (const int64_t column : columns) {
    TENDRIL_CHECK_AS(IndexError, column >= 0 && column < columns_, what_, ": column ", column, " of ", columns_);
  }
  if (options.dtype == kInt64) return numbers_of<int64_t>(columns, options);
  return raw::cast(numbers_of<double>(columns, options), options.dtype);
}

Tensor CsvTable::numbers(const std::vector<std::string>& columns, const NumberOptions& options) const {
  std::vector<int64_t> found;
  for (const std::string& name : columns) found.push_back(column(name));
  return numbers(found, options);
}

Tensor CsvTable::all_numbers(const NumberOptions& options) const {
  std::vector<int64_t> all;
  for (int64_t column = 0; column < columns_; ++column) all.push_back(column);
  return numbers(all, options);
}

CsvTable load_csv(const std::filesystem::path& file, const CsvOptions& options) {
  return detail::parse_csv(detail::Bytes::of_file("load_csv", file), options,
                           files::detail::label_of("load_csv", file));
}

}  // namespace tendril::data
