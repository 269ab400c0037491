#include "tendril/tensor/files/pytorch.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/files/detail/pickle.h"
#include "tendril/tensor/files/detail/pytorch_archive.h"
#include "tendril/tensor/files/detail/zip.h"
#include "tendril/tensor/raw.h"

namespace tendril {
namespace files::detail {
namespace {

using Kind = PickleNode::Kind;

constexpr int kMaxDepth = 64;

/// Turns a nest of values into names.
class Flattener {
 public:
  Flattener(const Pickle& pickle, uint64_t bytes, const std::string& what, FileMetadata* texts)
      : pickle_(pickle), what_(what), texts_(texts), visits_left_(1000 + 16 * bytes) {}

  StateDict run() {
    add(pickle_.nodes[pickle_.root], "", 0);
    return std::move(dict_);
  }

 private:
  void add(const PickleNode& node, const std::string& name, int depth) {
    TENDRIL_CHECK(depth <= kMaxDepth, what_, ": '", name, "' is nested over ", kMaxDepth, " deep, or holds itself");
    // A few bytes can hold a list twice that holds a list twice, ..., and one long text or key many times.
    const uint64_t cost = 1 + (name.size() + node.text.size()) / 4;
    TENDRIL_CHECK(cost <= visits_left_, what_, ": holds too many values for its size");
    visits_left_ -= cost;
    switch (node.kind) {
      case Kind::none:
        return;
      case Kind::tensor:
        return insert(name, node.tensor);
      case Kind::boolean:
        return insert(name, raw::scalar(node.integer != 0, kBool));
      case Kind::integer:
        return insert(name, raw::scalar(node.integer, kInt64));
      case Kind::floating:
        return insert(name, raw::scalar(node.floating, kFloat64));
      case Kind::text:
        if (texts_) {
          TENDRIL_CHECK(texts_->emplace(name, node.text).second, what_, ": two texts have the name '", name, "'");
        }
        return;
      case Kind::list:
        return add_list(node, name, depth);
      case Kind::dict:
        for (std::size_t i = 0; i + 1 < node.parts.size(); i += 2) {
          add(part(node, i + 1), below(name, key_of(part(node, i), name)), depth + 1);
        }
        return;
      case Kind::other_tensor:
        tendril::detail::raise<DTypeError>(
            what_, ": '", name.empty() ? "tensor" : name, "' has the dtype ", node.text,
            ", expected float64, float32, float16, bfloat16, int64, int32, uint8 or bool");
      case Kind::function:
      case Kind::storage:
        tendril::detail::raise<Error>(what_, ": '", name, "' is a ", node.kind == Kind::storage ? "storage" : "class",
                                      ", expected tensors, numbers and containers of them");
    }
  }

  void add_list(const PickleNode& node, const std::string& name, int depth) {
    const auto is_integer = [&](PickleNode::Number number) { return pickle_.nodes[number].kind == Kind::integer; };
    if (!node.parts.empty() && std::ranges::all_of(node.parts, is_integer)) {
      std::vector<int64_t> values;
      for (std::size_t i = 0; i < node.parts.size(); ++i) values.push_back(part(node, i).integer);
      TENDRIL_CHECK(values.size() <= visits_left_, what_, ": holds too many values for its size");
      visits_left_ -= values.size();
      return insert(name, raw::from_data(values, {static_cast<int64_t>(values.size())}));
    }
    for (std::size_t i = 0; i < node.parts.size(); ++i) add(part(node, i), below(name, std::to_string(i)), depth + 1);
  }

  const PickleNode& part(const PickleNode& node, std::size_t i) const { return pickle_.nodes[node.parts[i]]; }
  std::string key_of(const PickleNode& key, const std::string& name) const {
    if (key.kind == Kind::text) return key.text;
    TENDRIL_CHECK(key.kind == Kind::integer, what_, ": a key of the dict '", name, "' is neither text nor an integer");
    return std::to_string(key.integer);
  }
  static std::string below(const std::string& name, const std::string& key) {
    return name.empty() ? key : name + "." + key;
  }
  void insert(const std::string& name, const Tensor& tensor) {
    const std::string full = name.empty() ? "tensor" : name;
    TENDRIL_CHECK(!dict_.contains(full), what_, ": two entries have the name '", full, "'");
    dict_.insert(full, tensor);
  }

  const Pickle& pickle_;
  const std::string& what_;
  FileMetadata* const texts_;
  uint64_t visits_left_;
  StateDict dict_;
};

/// The folder in the archive that all of it is in.
std::string archive_folder(const ZipReader& archive, const std::string& what) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const ZipReader::Member& member : archive.members()) {
    if (!member.name.ends_with(kPickle)) continue;
    std::string folder = member.name.substr(0, member.name.size() - kPickle.size());
    if (folder.find('/') != std::string::npos) continue;
    TENDRIL_CHECK(!archive.find(folder + "/constants.pkl"), what,
                  ": is a TorchScript program, expected what torch.save wrote of a state_dict");
    return folder;
  }
  tendril::detail::raise<Error>(what, ": is a zip file without data.pkl, expected what torch.save wrote");
}

void check_byte_order(const ZipReader& archive, const std::string& folder, const std::string& what) {
  const ZipReader::Member* const member = archive.find(folder + "/byteorder");
  if (!member) return;  // before PyTorch 2.1: of the machine that wrote it, which nearly always is little-endian
  const auto content = archive.read(*member, ZipReader::Checksum::trust);
  const std::string_view order(reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size());
  TENDRIL_CHECK(order == "little", what, ": its byte order is '", order.substr(0, 20), "', expected 'little'");
}

}  // namespace

StateDict parse_pytorch(const std::shared_ptr<Bytes>& file, const std::string& what, FileMetadata* texts) {
  const auto all = file->all();
  TENDRIL_CHECK(all.size() < 2 || all[0] != std::byte{0x80}, what,
                ": is a pickle that is in no zip file, expected what torch.save wrote; if PyTorch before 1.6 did, load "
                "it with PyTorch and save it again");
  const ZipReader archive(file, what);
  const std::string folder = archive_folder(archive, what);
  check_byte_order(archive, folder, what);
  std::unordered_map<std::string, std::pair<DType, Ref<Storage>>> storages;
  const auto find_storage = [&](const std::string& key, DType dtype, int64_t count) {
    const std::string label = what + ": storage '" + key + "'";
    const uint64_t needed = bytes_of({count}, dtype, label);
    auto found = storages.find(key);
    if (found == storages.end()) {
      const ZipReader::Member* const member = archive.find(folder + "/data/" + key);
      TENDRIL_CHECK(member, label, ": is not in the file");
      const auto content = archive.read(*member, ZipReader::Checksum::trust);
      found = storages.emplace(key, std::pair(dtype, storage_on(content.owner, content.bytes, dtype, label))).first;
    }
    const auto& [known, storage] = found->second;
    TENDRIL_CHECK(known == dtype, label, ": is of ", known, " and of ", dtype);
    TENDRIL_CHECK(storage->bytes() == needed, label, ": has ", storage->bytes(), " bytes, expected ", needed);
    return storage;
  };
  const ZipReader::Member& program = *archive.find(folder + "/data.pkl");
  // torch.save compresses nothing; a few bytes could become as many values as memory holds.
  TENDRIL_CHECK(!program.deflated, what, ": its data.pkl is compressed, expected what torch.save wrote");
  const auto content = archive.read(program, ZipReader::Checksum::trust);
  const Pickle pickle = parse_pickle(content.bytes, what, find_storage);
  FileMetadata found;
  StateDict dict = Flattener(pickle, content.bytes.size(), what, texts ? &found : nullptr).run();
  if (texts) texts->swap(found);
  return dict;
}

}  // namespace files::detail

StateDict load_pytorch(const std::filesystem::path& file, FileMetadata* texts) {
  const char* const op = "load_pytorch";
  return files::detail::parse_pytorch(files::detail::Bytes::of_file(op, file), files::detail::label_of(op, file),
                                      texts);
}

}  // namespace tendril
