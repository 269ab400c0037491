#pragma once

#include <memory>
#include <span>
#include <string>

#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/state_dict.h"

/// The parts of the formats that do no I/O. Errors begin with `what`.
namespace tendril::files::detail {

/// `bytes` is a whole .npy file, kept by `owner`.
Tensor parse_npy(const std::shared_ptr<Bytes>& owner, std::span<std::byte> bytes, const std::string& what);
/// What stands before the elements. Throws DTypeError for bfloat16.
std::string npy_head(const Tensor& tensor, const std::string& what);

StateDict parse_npz(const std::shared_ptr<Bytes>& file, const std::string& what);

}  // namespace tendril::files::detail
