// The pickle of a .pt file, whose storages all have 16 bytes.
#include "tendril/tensor/files/detail/pickle.h"

#include "fuzz/files.h"

using namespace tendril;
using namespace tendril::files::detail;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const auto file = fuzz::file_of(data, size);
  const FindStorage find_storage = [](const std::string&, DType, int64_t) {
    Ref<Storage> storage = Storage::allocate(16);
    std::memset(storage->data(), 0, 16);
    return storage;
  };
  try {
    const Pickle pickle = parse_pickle(file->all(), "file", find_storage);
    for (const PickleNode& node : pickle.nodes) {
      if (node.kind == PickleNode::Kind::tensor) fuzz::touch(node.tensor);
      for (const PickleNode::Number part : node.parts) {
        if (part >= pickle.nodes.size()) __builtin_trap();
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
