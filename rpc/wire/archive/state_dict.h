#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tendril/rpc/wire/archive/containers.h"
#include "tendril/rpc/wire/archive/vocabulary.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// Encoded as a std::vector of names and tensors.
template <>
struct Serializer<StateDict> {
  static void save(OutputArchive& archive, const StateDict& dict) {
    archive << std::vector<StateDict::Entry>(dict.begin(), dict.end());
  }
  static void load(InputArchive& archive, StateDict& dict) {
    dict = {};
    const InputArchive::Nested nested(archive);
    for (std::size_t left = archive.count(); left > 0; --left) {
      StateDict::Entry entry;
      detail::load_element(archive, entry);
      try {  // one at a time: invalid entries do not accumulate in memory
        dict.insert(std::move(entry.first), std::move(entry.second));
      } catch (const Error& error) {  // an empty or duplicate name, or an undefined tensor
        archive.fail(error.what());
      }
    }
  }
};

}  // namespace tendril::rpc

TENDRIL_API_END
