#include "tendril/dist/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tendril/dist/checkpoint/detail/folder.h"
#include "tendril/rpc/call_context.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist {
namespace {

using detail::Shard;
using Texts = std::vector<std::string>;

constexpr std::size_t kNumber = 16;              // digits of a save's number, at the start of each worker's text
constexpr int64_t kMaxText = int64_t{16} << 20;  // bytes of a worker's text

/// Returns every worker's text, by rank.
Texts exchange(ProcessGroup& group, std::string mine, const CheckpointOptions& options) {
  const CollectiveOptions each{.timeout = options.timeout};
  if (static_cast<int64_t>(mine.size()) > kMaxText)
    mine.resize(kMaxText);  // of an error; longer lists of parts are rejected before
  const std::vector<Tensor> lengths =
      group.all_gather(full({1}, static_cast<int64_t>(mine.size()), {.dtype = kInt64, .device = Device()}), each);
  int64_t longest = 0;
  for (const Tensor& length : lengths) {
    const int64_t n = length.item<int64_t>();
    TENDRIL_CHECK(n >= 0 && n <= kMaxText, "checkpoint: a worker announced a text of ", n, " bytes, expected 0 to ",
                  kMaxText);
    longest = std::max(longest, n);
  }
  const Tensor bytes = zeros({longest}, {.dtype = kUInt8, .device = Device()});
  if (!mine.empty()) std::memcpy(bytes.mutable_data<uint8_t>(), mine.data(), mine.size());
  Texts texts;
  const std::vector<Tensor> all = group.all_gather(bytes, each);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto n = static_cast<std::size_t>(lengths[rank].item<int64_t>());
    texts.emplace_back(reinterpret_cast<const char*>(all[rank].data<uint8_t>()), n);
  }
  return texts;
}

/// Runs f on each worker. If it throws on any worker, throws on all of them an Error that lists the errors by worker.
/// Returns each worker's result.
Texts agree(ProcessGroup& group, const std::string& what, const CheckpointOptions& options,
            const std::function<std::string()>& f) {
  std::string mine = "+";
  try {
    mine += f();
    TENDRIL_CHECK(static_cast<int64_t>(mine.size()) <= kMaxText, "the names of its parts take ", mine.size(),
                  " bytes, expected at most ", kMaxText);
  } catch (const std::exception& error) {
    mine = std::string("-") + error.what();
  }
  Texts said = exchange(group, std::move(mine), options);
  std::string problems;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    if (!said[rank].starts_with('+')) {
      problems += "\nworker '" + group.workers()[rank].name + "': " + (said[rank].empty() ? "" : said[rank].substr(1));
    }
    said[rank].erase(0, 1);
  }
  TENDRIL_CHECK(problems.empty(), what, problems);
  return said;
}

void append(std::string& text, const nn::CheckpointParts& parts, char kind) {
  for (const nn::CheckpointPart& part : parts) text += kind + part.name() + '\0';
}
std::string described(const WorkerParts& parts) {
  std::string text;
  append(text, parts.shared, 's');
  append(text, parts.own, 'o');
  append(text, parts.each, 'e');
  for (const RemotePart& part : parts.remote) {
    text += 'o' + part.name() + '\0';
    text += 'f' + std::to_string(part.files()) + ' ' + part.name() + '\0';
  }
  return text;
}
/// Parses the output of `described`: names by kind.
std::map<char, std::set<std::string>> names_in(const std::string& text, std::size_t begin = 0) {
  std::map<char, std::set<std::string>> names{{'s', {}}, {'o', {}}, {'e', {}}, {'f', {}}};
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    if (end > begin) names[text[begin]].insert(text.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return names;
}

void check_names(const WorkerParts& parts) {
  std::set<std::string> names;
  const auto check = [&](const std::string& name) {
    TENDRIL_CHECK(name != "each" && name != "shard", "a part is called '", name, "', a name that checkpoints reserve");
    TENDRIL_CHECK(names.insert(name).second, "two parts have the name '", name, "'");
  };
  for (const auto* some : {&parts.shared, &parts.own, &parts.each}) {
    for (const nn::CheckpointPart& part : *some) check(part.name());
  }
  for (const RemotePart& part : parts.remote) {
    TENDRIL_CHECK(!part.name().empty() && part.name().find('.') == std::string::npos &&
                      part.name().find('\0') == std::string::npos,
                  "a part has the name '", part.name(), "', expected one without dots");
    check(part.name());
  }
}

/// Returns a context for calls to owners, with the timeout of the checkpoint instead of the default one of calls.
rpc::CallContext within(const CheckpointOptions& options) {
  constexpr auto kWhileTheyLive = std::chrono::hours(24 * 365);
  rpc::CallContext context = rpc::CallContext::current();
  const auto timeout = options.timeout.count() > 0 ? std::chrono::milliseconds(options.timeout) : kWhileTheyLive;
  context.deadline = std::min(context.deadline, rpc::Clock::now() + timeout);
  return context;
}

/// Returns, for each member, how many files the owners of its remote parts write.
std::vector<int> files_of_owners(const Texts& said) {
  std::vector<int> files;
  for (const std::string& text : said) {
    files.push_back(0);
    const auto names = names_in(text, kNumber);
    for (const std::string& one : names.at('f')) {
      constexpr int kMost = 1 << 20;
      int count = 0;
      const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), count);
      TENDRIL_CHECK(error == std::errc() && *end == ' ' && count >= 0 && count <= kMost - files.back(),
                    "save_checkpoint: a worker sent an invalid number of files: '", one.substr(0, 20), "'");
      files.back() += count;
    }
  }
  return files;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "none" : text;
}

/// Checks that the workers' lists of parts are consistent. `unique`: no two workers may both list an `own` or `remote`
/// part of the same name.
void check_together(const ProcessGroup& group, const std::string& op, const Texts& said, std::size_t begin,
                    bool unique) {
  const auto first = names_in(said[0], begin);
  std::map<std::string, std::string> owner;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    const std::string& name = group.workers()[rank].name;
    const auto mine = names_in(said[rank], begin);
    for (const auto& [kind, what] : {std::pair('s', "shared"), std::pair('e', "each")}) {
      TENDRIL_CHECK(mine.at(kind) == first.at(kind), op, ": parts '", what, "' differ: worker '", name, "' has ",
                    listed(mine.at(kind)), ", worker '", group.workers()[0].name, "' ", listed(first.at(kind)));
    }
    for (const std::string& part : mine.at('o')) {
      TENDRIL_CHECK(!first.at('s').contains(part) && !first.at('e').contains(part), op, ": part '", part,
                    "' belongs to worker '", name, "' alone, but also to all workers");
      const auto [found, is_new] = owner.emplace(part, name);
      TENDRIL_CHECK(is_new || !unique, op, ": workers '", found->second, "' and '", name, "' both have a part called '",
                    part, "'");
    }
  }
}

std::string text_of(uint64_t number) {
  std::string text(kNumber, '0');
  for (std::size_t i = kNumber; i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

StateDict entries_of(const WorkerParts& parts, const Shard& shard) {
  StateDict entries, each;
  if (shard.rank == 0) {
    for (const nn::CheckpointPart& part : parts.shared) part.save(entries);
  }
  for (const nn::CheckpointPart& part : parts.own) part.save(entries);
  for (const nn::CheckpointPart& part : parts.each) part.save(each);
  entries.insert(shard.each(), each);
  return entries;
}

/// If `check_only`, returns one line for each part that does not fit. Otherwise loads the parts. The `each` parts are
/// included only if `with_each`.
std::string load_parts(const WorkerParts& parts, const detail::ReadCheckpoint& checkpoint, int rank, bool with_each,
                       bool check_only) {
  std::string problems;
  const auto load = [&](const nn::CheckpointPart& part, const StateDict& from) {
    if (!check_only) return part.load(from, {});
    try {
      part.load(from, {.check_only = true});
    } catch (const Error& error) {
      problems += "\n  '" + part.name() + "': " + error.what();
    }
  };
  for (const auto* some : {&parts.shared, &parts.own}) {
    for (const nn::CheckpointPart& part : *some) load(part, checkpoint.entries);
  }
  if (!with_each) return problems;
  const StateDict each = checkpoint.entries.section(Shard{.rank = rank}.each());
  for (const nn::CheckpointPart& part : parts.each) load(part, each);
  return problems;
}

/// The same for parts that their owners load.
std::string read_remote(const WorkerParts& parts, const std::filesystem::path& folder,
                        const detail::ReadCheckpoint& checkpoint, const CheckpointOptions& options, bool check_only) {
  const rpc::CallContextScope in_time(within(options));
  std::string problems;
  for (const RemotePart& part : parts.remote) {
    const detail::PartFile file{folder.string(), part.name(), checkpoint.save};
    if (!check_only) {
      part.read(file, false);
      continue;
    }
    try {
      part.read(file, true);
    } catch (const std::exception& error) {
      problems += "\n  '" + part.name() + "': " + error.what();
    }
  }
  return problems;
}

/// Returns the names of a checkpoint's parts; those of `each` parts as "each: NAME".
std::set<std::string> parts_of(const StateDict& entries) {
  std::set<std::string> parts;
  for (const auto& [name, tensor] : entries) {
    const std::size_t dot = name.find('.');
    std::string part = name.substr(0, dot);
    if (part == "each" && dot != std::string::npos) {
      const std::size_t rank = name.find('.', dot + 1);
      if (rank != std::string::npos) part = "each: " + name.substr(rank + 1, name.find('.', rank + 1) - rank - 1);
    }
    parts.insert(std::move(part));
  }
  return parts;
}

}  // namespace

void save_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options) {
  const std::string op = "save_checkpoint";
  const std::string where = op + ": " + folder.string();
  const Texts said = agree(group, where + ": nothing was saved", options, [&] {
    check_names(parts);
    return text_of(rpc::detail::random_bits()) + described(parts);
  });
  check_together(group, where, said, kNumber, true);
  uint64_t save = 0;
  for (std::size_t i = 0; i < kNumber && i < said[0].size(); ++i) {
    save = save << 4 | std::string_view("0123456789abcdef").find(said[0][i]) % 16;
  }
  const std::vector<int> owners = files_of_owners(said);
  const int all = std::accumulate(owners.begin(), owners.end(), group.size());
  const Shard shard{save, group.rank(), all, group.size()};
  const int first = std::accumulate(owners.begin(), owners.begin() + group.rank(), group.size());
  bool wrote = false;
  try {
    agree(group, where + ": the old checkpoint was kept", options, [&] {
      wrote = true;
      detail::write_shard(folder, shard, entries_of(parts, shard));
      int file = first;
      const rpc::CallContextScope in_time(within(options));
      for (const RemotePart& part : parts.remote) {
        part.write({folder.string(), part.name(), save, file, all, group.size()});
        file += static_cast<int>(part.files());
      }
      return std::string();
    });
  } catch (const Error& error) {
    // After this error, all workers know that the save has failed, so the first commits nothing. After an RpcError it
    // may have committed the save.
    std::error_code ignored;
    const bool known = dynamic_cast<const rpc::RpcError*>(&error) == nullptr;
    if (!wrote || !known) throw;
    std::filesystem::remove(folder / shard.file(), ignored);
    for (int file = first; file < first + owners[static_cast<std::size_t>(shard.rank)]; ++file)
      std::filesystem::remove(folder / Shard{save, file, all, group.size()}.file(), ignored);
    throw;
  }
  agree(group, where + ": the index could not be written", options, [&] {
    if (shard.rank == 0) {
      detail::commit_shards(folder, save, shard.workers);
      detail::remove_stale_shards(folder, save);
    }
    return std::string();
  });
}

void load_checkpoint(ProcessGroup& group, const std::filesystem::path& folder, const WorkerParts& parts,
                     const CheckpointOptions& options) {
  const std::string where = "load_checkpoint: " + folder.string();
  const std::string refused = where + " does not fit, nothing was loaded";
  std::optional<detail::ReadCheckpoint> checkpoint;
  bool as_many = false;
  const Texts said = agree(group, refused, options, [&] {
    check_names(parts);
    checkpoint = detail::read_checkpoint(folder);
    as_many = checkpoint->members == group.size();
    std::string problems;
    if (!parts.each.empty() && !as_many && !options.each_may_stay) {
      problems += "\n  it was saved by " + std::to_string(checkpoint->members) + " workers, expected " +
                  std::to_string(group.size()) + ", because some parts are saved per worker (";
      for (const nn::CheckpointPart& part : parts.each) {
        problems += (&part == parts.each.data() ? "'" : ", '") + part.name() + "'";
      }
      problems += ")";
    } else {
      problems = load_parts(parts, *checkpoint, group.rank(), as_many, true) +
                 read_remote(parts, folder, *checkpoint, options, true);
    }
    TENDRIL_CHECK(problems.empty(), problems.substr(problems.empty() ? 0 : 1));
    return text_of(checkpoint->save) + described(parts);
  });
  check_together(group, where, said, kNumber, false);
  std::set<std::string> asked;
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    TENDRIL_CHECK(said[rank].substr(0, kNumber) == said[0].substr(0, kNumber), where, ": workers '",
                  group.workers()[0].name, "' and '", group.workers()[rank].name,
                  "' see different checkpoints, expected one shared folder");
    for (const auto& [kind, names] : names_in(said[rank], kNumber)) {
      if (kind == 'f') continue;
      for (const std::string& name : names) asked.insert(kind == 'e' ? "each: " + name : name);
    }
  }
  std::string problems;
  for (const std::string& part : parts_of(checkpoint->entries)) {
    if (!asked.contains(part)) problems += "\nhas a part '" + part + "', which no worker asks for";
  }
  TENDRIL_CHECK(problems.empty(), refused, problems);
  agree(group, where + " failed during loading, some parts may have been loaded", options, [&] {
    load_parts(parts, *checkpoint, group.rank(), as_many, false);
    read_remote(parts, folder, *checkpoint, options, false);
    return std::string();
  });
}

bool has_checkpoint(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::exists(detail::index_of(folder), ignored);
}

}  // namespace tendril::dist
