#pragma once

#include <memory>
#include <string>

#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/files/pytorch.h"

namespace tendril::files::detail {

/// load_pytorch of a file's bytes. Errors begin with `what`.
StateDict parse_pytorch(const std::shared_ptr<Bytes>& file, const std::string& what, FileMetadata* texts);

}  // namespace tendril::files::detail
