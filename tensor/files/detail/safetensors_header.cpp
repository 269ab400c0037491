#include "tendril/tensor/files/detail/safetensors_header.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <string_view>

#include "tendril/tensor/detail/json_text.h"
#include "tendril/tensor/error.h"

namespace tendril::files::detail {
namespace {

namespace json = boost::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxHeader = 100'000'000;  // the Python package's own limit
constexpr const char* kMetadata = "__metadata__";

/// In the order in which the package writes them, last first: what needs the widest alignment leads.
constexpr std::array<std::pair<const char*, DType>, 8> kHeaderDTypes = {{{"BOOL", kBool},
                                                                         {"U8", kUInt8},
                                                                         {"F16", kFloat16},
                                                                         {"BF16", kBFloat16},
                                                                         {"I32", kInt32},
                                                                         {"F32", kFloat32},
                                                                         {"F64", kFloat64},
                                                                         {"I64", kInt64}}};

std::size_t rank_of(DType dtype) {
  const auto found = std::ranges::find(kHeaderDTypes, dtype, &std::pair<const char*, DType>::second);
  return static_cast<std::size_t>(found - kHeaderDTypes.begin());
}

/// How many members all objects of a text name, each time one is named. The text is JSON.
std::size_t members_of(std::string_view text) {
  std::size_t members = 0;
  tendril::detail::scan_json(text, [&](char c, int) { members += c == ':' ? 1 : 0; });
  return members;
}
/// How many there are, each name of an object once. (The parser ends at a depth of 32.)
std::size_t members_of(const json::value& value) {  // NOLINT(misc-no-recursion)
  std::size_t members = 0;
  if (value.is_object()) {
    for (const auto& [name, inner] : value.get_object()) members += 1 + members_of(inner);
  } else if (value.is_array()) {
    for (const json::value& inner : value.get_array()) members += members_of(inner);
  }
  return members;
}

/// A parser's answer to any text: an object whose members have names of their own, as those of objects in it have, or
/// Error.
json::object parse_object(std::string_view text, const std::string& what) {
  boost::system::error_code error;
  json::value parsed = json::parse(json::string_view(text.data(), text.size()), error);
  TENDRIL_CHECK(!error, what, " is not JSON: ", error.message());
  TENDRIL_CHECK(parsed.is_object(), what, " is no JSON object");
  TENDRIL_CHECK(members_of(text) == members_of(parsed), what, " names an entry twice");  // the last would win
  return std::move(parsed.get_object());
}

const json::value& member(const json::object& object, const char* key, const std::string& what) {
  const json::value* const found = object.if_contains(key);
  TENDRIL_CHECK(found, what, ": has no \"", key, "\"");
  return *found;
}

std::string text_of(const json::value& value, const std::string& what) {
  TENDRIL_CHECK(value.is_string(), what, ": expected a string");
  return std::string(value.get_string());
}

/// Numbers of 0 or more.
std::vector<int64_t> numbers_of(const json::value& value, const std::string& what) {
  TENDRIL_CHECK(value.is_array(), what, ": expected a list of numbers");
  std::vector<int64_t> numbers;
  for (const json::value& element : value.get_array()) {
    TENDRIL_CHECK(element.is_int64() && element.get_int64() >= 0, what, ": expected whole numbers from 0 to 2^63");
    numbers.push_back(element.get_int64());
  }
  return numbers;
}

/// A tensor as the header describes it.
struct Described {
  std::string name;
  DType dtype;
  Dims sizes;
  uint64_t begin, end;  // after the header
};

Described describe(const std::string& name, const json::value& value, const std::string& file) {
  const std::string what = file + ": tensor '" + name + "'";
  TENDRIL_CHECK(value.is_object(), what, " is no JSON object");
  const json::object& object = value.get_object();
  const std::string dtype = text_of(member(object, "dtype", what), what + ": dtype");
  const auto known = std::ranges::find_if(kHeaderDTypes, [&](const auto& entry) { return dtype == entry.first; });
  TENDRIL_CHECK(known != kHeaderDTypes.end(), what, ": has dtype ", dtype,
                ", expected one of F64, F32, F16, BF16, I64, I32, U8, BOOL");
  const Dims sizes = sizes_of(numbers_of(member(object, "shape", what), what + ": shape"), what);
  const auto offsets = numbers_of(member(object, "data_offsets", what), what + ": data_offsets");
  TENDRIL_CHECK(offsets.size() == 2 && offsets[0] <= offsets[1], what,
                ": data_offsets: expected two numbers, the first not above the second");
  Described described{name, known->second, sizes, static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1])};
  const uint64_t needed = bytes_of(sizes, described.dtype, what);
  TENDRIL_CHECK(described.end - described.begin == needed, what, ": data_offsets: got ",
                described.end - described.begin, " bytes, expected ", needed, " for shape ", sizes, " of ", dtype);
  return described;
}

/// The elements lie one after the other, without gaps and overlaps, up to the file's end.
void check_offsets(const std::vector<Described>& tensors, uint64_t available, const std::string& file) {
  std::vector<const Described*> sorted;
  for (const Described& each : tensors) sorted.push_back(&each);
  std::ranges::sort(sorted, [](const Described* a, const Described* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t end = 0;
  for (const Described* each : sorted) {
    TENDRIL_CHECK(each->begin == end, file, ": tensor '", each->name, "': begins at byte ", each->begin,
                  " of the elements, expected ", end, ": elements overlap or have gaps");
    end = each->end;
  }
  TENDRIL_CHECK(end == available, file, ": has ", available, " bytes of elements, expected ", end,
                end > available ? ": it is cut short" : "");
}

FileMetadata metadata_of(const json::value& value, const std::string& file) {
  TENDRIL_CHECK(value.is_object(), file, ": ", kMetadata, " is no JSON object");
  FileMetadata metadata;
  for (const auto& [key, text] : value.get_object()) {
    metadata[std::string(key)] = text_of(text, file + ": " + kMetadata + ": '" + std::string(key) + "'");
  }
  return metadata;
}

json::string_view view(const std::string& text) { return {text.data(), text.size()}; }

}  // namespace

StateDict parse_safetensors(const std::shared_ptr<Bytes>& file, const std::string& what, FileMetadata* metadata) {
  const std::span<std::byte> all = file->all();
  TENDRIL_CHECK(all.size() >= kLengthBytes, what, ": has ", all.size(),
                " bytes, which is too short for a safetensors file");
  uint64_t length = 0;
  std::memcpy(&length, all.data(), kLengthBytes);
  TENDRIL_CHECK(length >= 2 && length <= kMaxHeader && length <= all.size() - kLengthBytes, what,
                ": is no safetensors file, or is cut short: its header would have ", length, " bytes of ",
                all.size() - kLengthBytes);
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + kLengthBytes, length);
  TENDRIL_CHECK(text[0] == '{', what, ": is no safetensors file: its header does not begin with '{'");
  const json::object header = parse_object(text, what + ": its header");
  const std::span<std::byte> elements = all.subspan(kLengthBytes + length);
  std::vector<Described> tensors;
  FileMetadata found;
  for (const auto& [key, value] : header) {
    const std::string name(key);
    if (name == kMetadata) {
      found = metadata_of(value, what);
    } else {
      tensors.push_back(describe(name, value, what));
    }
  }
  check_offsets(tensors, elements.size(), what);
  StateDict dict;
  for (const Described& each : tensors) {
    dict.insert(each.name, tensor_on(file, elements.subspan(each.begin, each.end - each.begin), each.sizes, each.dtype,
                                     what + ": tensor '" + each.name + "'"));
  }
  if (metadata) metadata->swap(found);
  return dict;
}

SafetensorsPlan plan_safetensors(const StateDict& dict, const FileMetadata& metadata, const std::string& what) {
  SafetensorsPlan plan;
  for (const StateDict::Entry& entry : dict) plan.order.push_back(&entry);
  std::ranges::sort(plan.order, [](const StateDict::Entry* a, const StateDict::Entry* b) {
    const std::size_t left = rank_of(a->second.dtype()), right = rank_of(b->second.dtype());
    return left != right ? left > right : a->first < b->first;
  });
  json::object header;
  if (!metadata.empty()) {
    json::object& texts = header[kMetadata].emplace_object();
    for (const auto& [key, text] : metadata) texts[view(key)] = view(text);
  }
  for (const StateDict::Entry* entry : plan.order) {
    const auto& [name, tensor] = *entry;
    TENDRIL_CHECK(name != kMetadata, what, ": name '", name, "' is the format's own, expected another");
    json::object described;
    described["dtype"] = kHeaderDTypes[rank_of(tensor.dtype())].first;
    json::array& shape = described["shape"].emplace_array();
    for (const int64_t size : tensor.sizes()) shape.push_back(size);
    const uint64_t begin = plan.element_bytes;
    plan.element_bytes += bytes_of(tensor.sizes(), tensor.dtype(), what + ": '" + name + "'");
    described["data_offsets"] = {begin, plan.element_bytes};
    header[view(name)] = std::move(described);
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');         // elements begin where any of them may
  parse_object(text, what + ": what the names make");  // that are not UTF-8 nobody could read again
  TENDRIL_CHECK(text.size() <= kMaxHeader, what, ": its header would have ", text.size(), " bytes, expected at most ",
                kMaxHeader);
  const uint64_t length = text.size();
  plan.head.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  plan.head += text;
  return plan;
}

WeightMap parse_index(std::string_view text, const std::string& what) {
  const json::object index = parse_object(text, what);
  const json::value& map = member(index, "weight_map", what);
  TENDRIL_CHECK(map.is_object(), what, ": \"weight_map\" is no JSON object");
  WeightMap files;
  for (const auto& [name, value] : map.get_object()) {
    const std::string file = text_of(value, what + ": '" + std::string(name) + "'");
    TENDRIL_CHECK(!file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
                      file.find('\0') == std::string::npos,
                  what, ": '", std::string(name), "' is in '", file, "', expected the name of a file beside the index");
    files.emplace_back(std::string(name), file);
  }
  return files;
}

std::string write_index(const WeightMap& files, uint64_t total_bytes) {
  json::object map;
  for (const auto& [name, file] : files) map[view(name)] = view(file);
  const json::object index{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", std::move(map)}};
  return json::serialize(index) + "\n";
}

}  // namespace tendril::files::detail
