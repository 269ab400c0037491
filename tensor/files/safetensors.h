#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tendril/tensor/export.h"
#include "tendril/tensor/state_dict.h"

TENDRIL_API_BEGIN

/// safetensors, the format of the Python package of this name: a header in JSON, then the elements of all tensors
/// without gaps (https://github.com/huggingface/safetensors, "Format"). Files go both ways between the two; ours are
/// those of the package to the last byte. docs/files.md says what all formats have in common.
///
/// Thread-safety: any thread; a file that is being written is seen by readers when it is whole.
namespace tendril {

using FileMetadata = std::map<std::string, std::string>;  ///< what a file says beside its tensors

struct SafetensorsOptions {
  FileMetadata metadata = {};  ///< "format" = "pt" is what some readers of Python's ask for
};

/// Writes all tensors, of any dtype, layout and device, by dtype and name. Atomic.
/// Throws Error for names that are not UTF-8 or are "__metadata__", and where the disk is full or the folder missing;
/// what was there before is unchanged then.
void save_safetensors(const StateDict& dict, const std::filesystem::path& file, const SafetensorsOptions& options = {});

/// All tensors of a file, or of the files that an index (its name ends with ".json") speaks of, in the header's order,
/// on the CPU. Their elements are the file's own pages, read when they are first looked at and shared with other
/// readers; writing to them changes this process's copy alone, never the file. They keep the mapping for as long as one
/// of them lives.
/// Throws Error for what is no such file, is cut short or contradicts itself, and for a dtype that there is no tensor
/// of. `metadata`, if given, is what the file says beside them.
StateDict load_safetensors(const std::filesystem::path& file, FileMetadata* metadata = nullptr);

struct ShardOptions {
  uint64_t max_shard_bytes = 5'000'000'000;  ///< of elements in one file; a larger tensor has a file of its own
  FileMetadata metadata = {};                ///< of every file
};

/// Several files in `folder` and the index of which tensor is where, "model.safetensors.index.json", as Hugging Face's
/// libraries read and write it. Files' names are new ones each time, and the index is written last: readers of the
/// index see all of the old or all of the new. Then files that the index spoke of before are removed. Throws Error as
/// save_safetensors does; the index and its files are unchanged then, and no file is left over. Where several processes
/// save to one folder at a time the last index holds, and files of the others stay behind.
void save_safetensors_sharded(const StateDict& dict, const std::filesystem::path& folder,
                              const ShardOptions& options = {});

}  // namespace tendril

TENDRIL_API_END
