#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tendril/tensor/raw.h"

namespace tendril::testing {

/// The elements of the files that tests/files_golden.py makes.
inline Tensor pattern(const Dims& sizes, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel_of(sizes); ++i) {
    const auto number = static_cast<double>(i);
    values.push_back(dtype == kBool       ? i % 3 == 0
                     : dtype == kUInt8    ? 7 * number
                     : is_floating(dtype) ? 0.5 * number - 2
                                          : number - 3);
  }
  return raw::cast(raw::from_data(values, sizes), dtype);
}

inline const std::vector<std::pair<std::string, DType>> kDTypesByName = {
    {"float32", kFloat32}, {"float64", kFloat64}, {"float16", kFloat16}, {"bfloat16", kBFloat16},
    {"int64", kInt64},     {"int32", kInt32},     {"uint8", kUInt8},     {"bool", kBool}};

/// Sizes, dtype and elements.
inline bool same(const Tensor& x, const Tensor& y) { return raw::equal(x, y); }

inline std::string golden_file(const std::string& name) { return TENDRIL_TEST_DATA "/files/" + name; }

}  // namespace tendril::testing
