#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/files/safetensors.h"

TENDRIL_API_BEGIN

/// The parts of the format that do no I/O.
namespace tendril::files::detail {

/// The tensors in the bytes of a safetensors file. Errors begin with `what`.
StateDict parse_safetensors(const std::shared_ptr<Bytes>& file, const std::string& what, FileMetadata* metadata);

/// How a file of these tensors begins, up to the first element, and the order in which the elements follow.
struct SafetensorsPlan {
  std::string head;
  std::vector<const StateDict::Entry*> order;
  uint64_t element_bytes = 0;
};
SafetensorsPlan plan_safetensors(const StateDict& dict, const FileMetadata& metadata, const std::string& what);

/// Which file holds which tensor, in the index's order. Names of files have no folder in them.
using WeightMap = std::vector<std::pair<std::string, std::string>>;
WeightMap parse_index(std::string_view json, const std::string& what);
std::string write_index(const WeightMap& files, uint64_t total_bytes);

}  // namespace tendril::files::detail

TENDRIL_API_END
