#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::data {

struct CsvOptions {
  char delimiter = ',';  ///< between two fields
  char quote = '"';      ///< around a field that has a delimiter, a quote or a line end in it
  bool header = true;    ///< the first line names the columns
};

struct NumberOptions {
  DType dtype = kFloat32;              ///< kFloat32, kFloat64 or kInt64
  std::optional<double> missing = {};  ///< what an empty field is; without: an Error
};

/// A table of text (RFC 4180): fields that hold the delimiter, quotes (doubled) or line ends are quoted; lines end with
/// LF, CRLF or CR; empty lines are left out. It refers to the mapped file.
///
/// Thread-safety: any thread reads.
class CsvTable {
 public:
  /// How many rows, without the header.
  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  /// How many columns.
  int64_t columns() const { return columns_; }
  const std::vector<std::string>& header() const { return header_; }  ///< empty if there is none
  /// The number of a column by its name. Throws Error for one that there is not, or that several have.
  int64_t column(std::string_view name) const;
  /// A field's text, without quotes. Throws IndexError.
  std::string text(int64_t row, int64_t column) const;
  /// [rows, columns.size()]. Throws Error that names line and column for a field that is no number of that dtype; white
  /// space around it is allowed.
  Tensor numbers(const std::vector<int64_t>& columns, const NumberOptions& options = {}) const;
  Tensor numbers(const std::vector<std::string>& columns, const NumberOptions& options = {}) const;
  Tensor all_numbers(const NumberOptions& options = {}) const;  ///< of all columns
  int64_t line(int64_t row) const;                              ///< where the row begins in the file, from 1

 private:
  friend class CsvParser;
  struct Field {
    std::size_t begin = 0, end = 0;
    bool quoted = false;  ///< then begin and end are within the quotes
  };
  std::string text_of(const Field& field) const;
  template <class T>
  Tensor numbers_of(const std::vector<int64_t>& columns, const NumberOptions& options) const;

  std::shared_ptr<const void> file_;
  std::string_view text_;  ///< of the file
  std::string what_;
  char quote_ = '"';
  std::vector<std::string> header_;
  std::vector<Field> fields_;   ///< row by row
  std::vector<int64_t> lines_;  ///< of each row
  int64_t columns_ = 0;
};

/// Reads a CSV file. Throws Error that names the line for a row of another number of fields than the first one's, for a
/// quote that does not end, and for text behind a closing one.
CsvTable load_csv(const std::filesystem::path& file, const CsvOptions& options = {});

}  // namespace tendril::data

TENDRIL_API_END
