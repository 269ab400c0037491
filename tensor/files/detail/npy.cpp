#include "tendril/tensor/files/detail/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/zip.h"
#include "tendril/tensor/raw.h"

namespace tendril::files::detail {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
constexpr std::size_t kElementAlignment = 64;

constexpr std::array<std::pair<std::string_view, DType>, 7> kNumpyDTypes = {{{"f8", kFloat64},
                                                                             {"f4", kFloat32},
                                                                             {"f2", kFloat16},
                                                                             {"i8", kInt64},
                                                                             {"i4", kInt32},
                                                                             {"u1", kUInt8},
                                                                             {"b1", kBool}}};

/// What the header says: a Python dict of three known keys.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

/// Reads the header's literal, and nothing else that Python could read.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& what) : rest_(text), what_(what) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = text();
      expect(':');
      if (key == "descr" && !header.descr) {
        header.descr = dtype();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = truth();
      } else if (key == "shape" && !header.shape) {
        header.shape = numbers();
      } else {
        fail("unknown or repeated key '" + key + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty()) fail("something behind its end");
    if (!header.descr || !header.fortran_order || !header.shape) fail("no descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    tendril::detail::raise<Error>(what_, ": its header is damaged: ", problem);
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t\r"), rest_.size())); }
  bool accept(char wanted) {
    skip_spaces();
    if (rest_.empty() || rest_[0] != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("expected '") + wanted + "'");
  }
  std::string text() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("a string without end");
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return value;
  }
  std::string dtype() {
    skip_spaces();
    if (!rest_.empty() && rest_[0] == '[') {
      tendril::detail::raise<Error>(what_, ": its elements are structures, expected numbers");
    }
    return text();
  }
  bool truth() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail("expected True or False");
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      int64_t value = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (error != std::errc()) fail("expected a number");
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      accept('L');  // of Python 2
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view rest_;
  const std::string& what_;
};

std::string_view descr_of(DType dtype) {
  for (const auto& [name, known] : kNumpyDTypes) {
    if (known == dtype) return name;
  }
  return {};
}

void swap_bytes(std::byte* data, int64_t count, std::size_t size) {
  for (int64_t i = 0; i < count; ++i, data += size) std::reverse(data, data + size);
}

/// Up to the length of the header's text, and that length.
std::pair<std::size_t, std::size_t> find_header(std::span<const std::byte> bytes, const std::string& what) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TENDRIL_CHECK(text.size() >= 10 && text.starts_with(kMagic), what, ": is no .npy file: it does not begin as one");
  const int version = static_cast<unsigned char>(text[6]);
  TENDRIL_CHECK(version >= 1 && version <= 3, what, ": has version ", version, " of the format, expected 1, 2 or 3");
  uint32_t length = 0;
  const std::size_t head = version == 1 ? 10 : 12;
  TENDRIL_CHECK(text.size() >= head, what, ": is cut short within its header");
  std::memcpy(&length, text.data() + 8, head - 8);
  TENDRIL_CHECK(length <= text.size() - head, what, ": is cut short: its header would have ", length, " bytes of ",
                text.size() - head);
  return {head, length};
}

}  // namespace

Tensor parse_npy(const std::shared_ptr<Bytes>& owner, std::span<std::byte> bytes, const std::string& what) {
  const auto [head, length] = find_header(bytes, what);
  const Header header = HeaderParser({reinterpret_cast<const char*>(bytes.data()) + head, length}, what).parse();
  const std::string& descr = *header.descr;
  const auto known = std::ranges::find_if(kNumpyDTypes, [&](const auto& entry) {
    return descr.size() == 3 && "<>=|"sv.find(descr[0]) != std::string_view::npos && descr.substr(1) == entry.first;
  });
  TENDRIL_CHECK(known != kNumpyDTypes.end(), what, ": has dtype '", descr,
                "', expected one of f8, f4, f2, i8, i4, u1, b1 in either byte order");
  const DType dtype = known->second;
  Dims sizes = sizes_of(*header.shape, what);
  const std::span<std::byte> elements = bytes.subspan(head + length);
  const uint64_t needed = bytes_of(sizes, dtype, what);
  TENDRIL_CHECK(elements.size() == needed, what, ": has ", elements.size(), " bytes of elements, expected ", needed,
                " for shape ", sizes, " of ", dtype);
  if (*header.fortran_order) std::reverse(sizes.begin(), sizes.end());
  Tensor tensor = tensor_on(owner, elements, sizes, dtype, what);
  if (descr[0] == '>' && size_of(dtype) > 1) {
    tensor = raw::clone(tensor);
    swap_bytes(static_cast<std::byte*>(tensor.raw_data()), tensor.numel(), size_of(dtype));
  }
  if (*header.fortran_order) {
    Dims reversed;
    for (int d = sizes.size(); d-- > 0;) reversed.push_back(d);
    tensor = raw::permute(tensor, reversed);
  }
  return tensor;
}

std::string npy_head(const Tensor& tensor, const std::string& what) {
  const std::string_view descr = descr_of(tensor.dtype());
  TENDRIL_CHECK_AS(DTypeError, !descr.empty(), what, ": got dtype ", tensor.dtype(),
                   ", which NumPy has none of: cast it to float32 first");
  std::string shape;
  for (const int64_t size : tensor.sizes()) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  if (tensor.dim() == 1) shape += ",";
  std::string text = "{'descr': '" + std::string(size_of(tensor.dtype()) > 1 ? "<" : "|") + std::string(descr) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // NumPy leaves room for the first size to grow to 21 digits, then aligns the elements.
  if (tensor.dim() > 0) text.append(21 - std::to_string(tensor.size(0)).size(), ' ');
  const std::size_t unaligned = kMagic.size() + 4 + text.size() + 1;
  text.append((kElementAlignment - unaligned % kElementAlignment) % kElementAlignment, ' ');
  text += '\n';
  std::string head(kMagic);
  head += "\x01\x00"sv;
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

StateDict parse_npz(const std::shared_ptr<Bytes>& file, const std::string& what) {
  const ZipReader archive(file, what);
  constexpr std::string_view kEnding = ".npy";
  StateDict dict;
  for (const ZipReader::Member& member : archive.members()) {
    std::string name = member.name;
    if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
    const std::string label = what + ": member '" + member.name + "'";
    TENDRIL_CHECK(!name.empty() && !dict.contains(name), label, ": its name is empty or another member's");
    const ZipReader::Content content = archive.read(member, ZipReader::Checksum::check);
    dict.insert(name, parse_npy(content.owner, content.bytes, label));
  }
  return dict;
}

}  // namespace tendril::files::detail
