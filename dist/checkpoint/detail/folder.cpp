#include "tendril/dist/checkpoint/detail/folder.h"

#include <charconv>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tendril/dist/checkpoint/detail/part_file.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/atomic_file.h"
#include "tendril/tensor/files/detail/safetensors_header.h"
#include "tendril/tensor/files/safetensors.h"

namespace tendril::dist::detail {
namespace {

const FileMetadata kFormat = {{"format", "tendril.distributed_checkpoint"}, {"version", "1"}};
constexpr std::string_view kBegin = "checkpoint-", kEnd = ".safetensors", kIndex = "checkpoint.index.json";
constexpr std::string_view kUnfinished = ".tendril-";

std::string padded(std::string digits, std::size_t width) {
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

std::string hex_of(uint64_t number) {
  char text[16];
  return padded(std::string(text, std::to_chars(text, text + sizeof text, number, 16).ptr), 16);
}

/// Whether `ending` is what AtomicFile appends to the name of an incomplete file: ".tendril-" and twelve hex digits.
bool is_unfinished(std::string_view ending) {
  return ending.starts_with(kUnfinished) && ending.size() == kUnfinished.size() + 12 &&
         ending.find_first_not_of("0123456789abcdef", kUnfinished.size()) == std::string_view::npos;
}

/// Whether a file has a name from `Shard::file`, or is an incomplete AtomicFile of such a file or of the index.
bool may_be_stale(std::string_view name) {
  const auto all = [](std::string_view text, std::string_view of) {
    return !text.empty() && text.find_first_not_of(of) == std::string_view::npos;
  };
  if (name.starts_with(kIndex)) return is_unfinished(name.substr(kIndex.size()));
  if (!name.starts_with(kBegin)) return false;
  name.remove_prefix(kBegin.size());
  if (name.size() < 17 || !all(name.substr(0, 16), "0123456789abcdef") || name[16] != '-') return false;
  name.remove_prefix(17);
  const std::size_t of = name.find("-of-"), end = name.find(kEnd);
  if (of == std::string_view::npos || end == std::string_view::npos || end < of + 4) return false;
  if (!all(name.substr(0, of), "0123456789") || !all(name.substr(of + 4, end - of - 4), "0123456789")) return false;
  name.remove_prefix(end + kEnd.size());
  return name.empty() || is_unfinished(name);
}

void check_format(const std::filesystem::path& file, const FileMetadata& metadata) {
  for (const auto& [key, value] : kFormat) {
    const auto found = metadata.find(key);
    TENDRIL_CHECK(found != metadata.end() && found->second == value, "checkpoint: ", file, ": ", key, ": got '",
                  found == metadata.end() ? "" : found->second, "', expected '", value, "'");
  }
}

int64_t number_of(const StateDict& entries, const std::string& name, const std::filesystem::path& file) {
  const Tensor* const found = entries.find(name);
  TENDRIL_CHECK(found && found->dtype() == kInt64 && found->dim() == 0, "checkpoint: ", file, ": '", name,
                "' is missing or not an int64 scalar; the file is of another save or of another number of workers");
  return found->item<int64_t>();
}

}  // namespace

std::string Shard::file() const {
  return std::string(kBegin) + hex_of(save) + "-" + padded(std::to_string(rank), 5) + "-of-" +
         padded(std::to_string(workers), 5) + std::string(kEnd);
}
std::string Shard::marks() const { return "shard." + std::to_string(rank); }
std::string Shard::each() const { return "each." + std::to_string(rank); }

std::filesystem::path index_of(const std::filesystem::path& folder) { return folder / kIndex; }

void write_shard(const std::filesystem::path& folder, const Shard& shard, const StateDict& entries) {
  StateDict all = entries;
  all.insert(shard.marks() + ".save", static_cast<int64_t>(shard.save));
  all.insert(shard.marks() + ".workers", int64_t{shard.workers});
  if (shard.members != shard.workers) all.insert(shard.marks() + ".members", int64_t{shard.members});
  save_safetensors(all, folder / shard.file(), {.metadata = kFormat});
}

void commit_shards(const std::filesystem::path& folder, uint64_t save, int workers) {
  files::detail::WeightMap where;
  uint64_t total = 0;
  for (int rank = 0; rank < workers; ++rank) {
    const Shard shard{save, rank, workers};
    FileMetadata metadata;
    const StateDict entries = load_safetensors(folder / shard.file(), &metadata);  // reads only the header
    check_format(folder / shard.file(), metadata);
    const auto marked = static_cast<uint64_t>(number_of(entries, shard.marks() + ".save", folder / shard.file()));
    TENDRIL_CHECK(marked == save, "checkpoint: ", folder / shard.file(), ": the file is of another save");
    for (const auto& [name, tensor] : entries) {
      where.emplace_back(name, shard.file());
      total += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    }
  }
  const std::string text = files::detail::write_index(where, total);
  files::detail::AtomicFile out("save_checkpoint", index_of(folder), text.size());
  out.write(text);
  out.commit();
}

void remove_stale_shards(const std::filesystem::path& folder, uint64_t save) {
  const std::string mine = std::string(kBegin) + hex_of(save) + "-";
  std::vector<std::filesystem::path> stale;
  std::error_code ignored;
  std::filesystem::directory_iterator file(folder, ignored);
  for (; !ignored && file != std::filesystem::directory_iterator(); file.increment(ignored)) {
    const std::string name = file->path().filename().string();
    if (may_be_stale(name) && !name.starts_with(mine)) stale.push_back(file->path());
  }
  for (const auto& path : stale) std::filesystem::remove(path, ignored);
}

ReadCheckpoint read_checkpoint(const std::filesystem::path& folder) {
  FileMetadata metadata;
  const auto index = index_of(folder);
  const StateDict read = load_safetensors(index, &metadata);
  check_format(index, metadata);
  ReadCheckpoint result;
  const Shard first;
  const int64_t workers = number_of(read, first.marks() + ".workers", index);
  const int64_t save = number_of(read, first.marks() + ".save", index);
  // Each worker has two numbers in the checkpoint, so there are fewer workers than entries.
  TENDRIL_CHECK(workers >= 1 && workers <= static_cast<int64_t>(read.size()), "checkpoint: ", index, ": got ", workers,
                " workers, expected at least 1 and at most as many as entries");
  const bool remote = read.contains(first.marks() + ".members");
  const int64_t members = remote ? number_of(read, first.marks() + ".members", index) : workers;
  TENDRIL_CHECK(members >= 1 && members <= workers, "checkpoint: ", index, ": got ", members,
                " members, expected 1 to ", workers);
  result.workers = static_cast<int>(workers);
  result.members = static_cast<int>(members);
  result.save = static_cast<uint64_t>(save);
  std::set<std::string> marks;
  for (int rank = 0; rank < result.workers; ++rank) {
    const std::string prefix = Shard{result.save, rank, result.workers}.marks();
    for (const auto& [key, expected] : {std::pair(".workers", workers), std::pair(".save", save)}) {
      const int64_t got = number_of(read, prefix + key, index);
      TENDRIL_CHECK(got == expected, "checkpoint: ", index, ": the file of rank ", rank, " is of another save (",
                    prefix, key, ": got ", got, ", expected ", expected, ")");
      marks.insert(prefix + key);
    }
    if (remote) marks.insert(prefix + ".members");
  }
  for (const auto& [name, tensor] : read) {
    if (!marks.contains(name)) result.entries.insert(name, tensor);
  }
  return result;
}

void write_part(const PartFile& file, const StateDict& entries) {
  StateDict all;
  all.insert(file.part, entries);
  write_shard(file.folder, {file.save, file.rank, file.workers, file.members}, all);
}

StateDict read_part(const PartFile& file) {
  const ReadCheckpoint checkpoint = read_checkpoint(file.folder);
  TENDRIL_CHECK(checkpoint.save == file.save, "checkpoint: ", file.folder, ": part '", file.part,
                "': its owner sees another checkpoint there, expected one shared folder");
  return checkpoint.entries.section(file.part);
}

}  // namespace tendril::dist::detail
