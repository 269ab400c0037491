#include "tendril/tensor/files/safetensors.h"

#include <algorithm>
#include <iomanip>
#include <locale>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/files/detail/safetensors_header.h"

namespace tendril {
namespace {

using files::detail::AtomicFile;
using files::detail::Bytes;
using files::detail::label_of;
using files::detail::WeightMap;

constexpr const char* kIndex = "model.safetensors.index.json";

void write_file(const char* op, const StateDict& dict, const std::filesystem::path& file,
                const FileMetadata& metadata) {
  const auto plan = files::detail::plan_safetensors(dict, metadata, label_of(op, file));
  AtomicFile out(op, file, plan.head.size() + plan.element_bytes);
  out.write(plan.head);
  for (const StateDict::Entry* entry : plan.order) {
    Tensor holder;
    out.write(files::detail::elements_of(entry->second, holder));
  }
  out.commit();
}

WeightMap read_index(const char* op, const std::filesystem::path& file) {
  const auto bytes = Bytes::of_file(op, file);
  const std::string_view text(reinterpret_cast<const char*>(bytes->all().data()), bytes->size());
  return files::detail::parse_index(text, label_of(op, file));
}

StateDict load_shards(const std::filesystem::path& index, const WeightMap& where, FileMetadata* metadata) {
  const char* const op = "load_safetensors";
  std::map<std::string, StateDict> shards;
  FileMetadata all;  // that of the last file which has some
  for (const auto& [name, file] : where) {
    if (shards.contains(file)) continue;
    const auto path = index.parent_path() / file;
    FileMetadata found;
    shards[file] = files::detail::parse_safetensors(Bytes::of_file(op, path), label_of(op, path), &found);
    if (!found.empty()) all.swap(found);
  }
  StateDict dict;
  for (const auto& [name, file] : where) {
    const Tensor* const found = shards[file].find(name);
    TENDRIL_CHECK(found, label_of(op, index), ": says that '", name, "' is in ", file, ", which has no such tensor");
    dict.insert(name, *found);
  }
  if (metadata) metadata->swap(all);
  return dict;
}

/// A save that ends meanwhile removes what the index spoke of before: then there is a new index.
StateDict load_sharded(const std::filesystem::path& index, FileMetadata* metadata) {
  const char* const op = "load_safetensors";
  constexpr int kTries = 100;
  WeightMap where = read_index(op, index);
  for (int i = 1;; ++i) {
    try {
      return load_shards(index, where, metadata);
    } catch (const Error&) {
      WeightMap now = read_index(op, index);
      if (now == where || i == kTries) throw;
      where.swap(now);
    }
  }
}

/// Removes what a save that fails would leave behind.
class Cleanup {
 public:
  void add(const std::filesystem::path& file) { files_.push_back(file); }
  void keep() { files_.clear(); }
  ~Cleanup() {
    std::error_code ignored;
    for (const auto& file : files_) std::filesystem::remove(file, ignored);
  }

 private:
  std::vector<std::filesystem::path> files_;
};

std::vector<StateDict> shards_of(const StateDict& dict, uint64_t max_bytes) {
  std::vector<StateDict> shards(1);
  uint64_t filled = 0;
  for (const auto& [name, tensor] : dict) {
    const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    if (!shards.back().empty() && filled + bytes > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().insert(name, tensor);
    filled += bytes;
  }
  return shards;
}

/// The files that an index speaks of; none if there is none that can be read. Names that nobody gives to shards are not
/// among them: what they are is not ours to remove.
std::set<std::string> shards_in(const std::filesystem::path& index) {
  std::set<std::string> names;
  try {
    for (const auto& [name, file] : read_index("save_safetensors_sharded", index)) {
      if (file.starts_with("model-") && file.ends_with(".safetensors")) names.insert(file);
    }
  } catch (const Error&) {
  }
  return names;
}

std::string random_tag() {
  std::random_device random;
  std::ostringstream out;
  out.imbue(std::locale::classic());  // whatever the program's locale puts between digits
  out << std::hex << std::setfill('0') << std::setw(8) << random();
  return out.str();
}

}  // namespace

void save_safetensors(const StateDict& dict, const std::filesystem::path& file, const SafetensorsOptions& options) {
  write_file("save_safetensors", dict, file, options.metadata);
}

StateDict load_safetensors(const std::filesystem::path& file, FileMetadata* metadata) {
  if (file.extension() == ".json") return load_sharded(file, metadata);
  return files::detail::parse_safetensors(Bytes::of_file("load_safetensors", file), label_of("load_safetensors", file),
                                          metadata);
}

void save_safetensors_sharded(const StateDict& dict, const std::filesystem::path& folder, const ShardOptions& options) {
  const char* const op = "save_safetensors_sharded";
  TENDRIL_CHECK(options.max_shard_bytes > 0, op, ": max_shard_bytes: got 0, expected a positive number");
  const std::filesystem::path index = folder / kIndex;
  const std::set<std::string> old = shards_in(index);
  const std::vector<StateDict> shards = shards_of(dict, options.max_shard_bytes);
  const std::string tag = random_tag();
  Cleanup written;
  WeightMap where;
  uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::ostringstream name;
    name.imbue(std::locale::classic());
    name << "model-" << tag << std::setfill('0') << "-" << std::setw(5) << i + 1 << "-of-" << std::setw(5)
         << shards.size() << ".safetensors";
    write_file(op, shards[i], folder / name.str(), options.metadata);
    written.add(folder / name.str());
    for (const auto& [key, tensor] : shards[i]) {
      where.emplace_back(key, name.str());
      total += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    }
  }
  const std::string text = files::detail::write_index(where, total);
  AtomicFile out(op, index, text.size());
  out.write(text);
  out.commit();
  written.keep();
  std::error_code ignored;  // a file that stays is of no harm
  for (const std::string& file : old) std::filesystem::remove(folder / file, ignored);
}

}  // namespace tendril
