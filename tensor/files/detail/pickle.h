#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tendril/tensor/dtype.h"
#include "tendril/tensor/tensor.h"

/// Python's pickle, as far as torch.save uses it (https://docs.python.org/3/library/pickletools.html, protocols 2 to
/// 5): values, and the few functions of PyTorch's that make tensors of them, which are done here.
namespace tendril::files::detail {

/// A value. Parts refer to each other by number, so that what holds itself neither loops nor leaks.
struct PickleNode {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    floating,
    text,
    list,
    dict,
    function,
    storage,
    tensor,
    other_tensor
  };
  using Number = uint32_t;

  Kind kind = Kind::none;
  DType dtype = kFloat32;  ///< of a storage
  int64_t integer = 0;     ///< or boolean; of a storage its elements
  double floating = 0;
  std::string text;              ///< of a function its name, of a storage its key, of another tensor its dtype
  std::string_view other_dtype;  ///< of a storage whose dtype no Tensor has, a literal
  std::vector<Number> parts;     ///< of a list (or tuple) its elements, of a dict key, value, key, value, ...
  Tensor tensor;
};

struct Pickle {
  std::vector<PickleNode> nodes;
  PickleNode::Number root = 0;
};

/// The elements that a pickle calls `key`, of this dtype and number. May throw Error.
using FindStorage = std::function<Ref<Storage>(const std::string& key, DType dtype, int64_t count)>;

/// Throws Error that begins with `what` for anything but a whole pickle of known values.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& what, const FindStorage& find_storage);
}  // namespace tendril::files::detail
