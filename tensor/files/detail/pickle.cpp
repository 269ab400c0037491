#include "tendril/tensor/files/detail/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tendril/tensor/error.h"
#include "tendril/tensor/files/detail/bytes.h"
#include "tendril/tensor/raw.h"

namespace tendril::files::detail {
namespace {

using Kind = PickleNode::Kind;
using Number = PickleNode::Number;

constexpr std::array<std::pair<std::string_view, DType>, 8> kStorages = {{{"torch FloatStorage", kFloat32},
                                                                          {"torch DoubleStorage", kFloat64},
                                                                          {"torch HalfStorage", kFloat16},
                                                                          {"torch BFloat16Storage", kBFloat16},
                                                                          {"torch LongStorage", kInt64},
                                                                          {"torch IntStorage", kInt32},
                                                                          {"torch ByteStorage", kUInt8},
                                                                          {"torch BoolStorage", kBool}}};
/// Storages of dtypes that no Tensor has. PyTorch has none of newer dtypes (uint16, float8): tensors of those are made
/// of an UntypedStorage and the dtype.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOtherStorages = {
    {{"torch ShortStorage", "int16"},
     {"torch CharStorage", "int8"},
     {"torch ComplexFloatStorage", "complex64"},
     {"torch ComplexDoubleStorage", "complex128"}}};
constexpr std::string_view kUntypedStorage = "torch.storage UntypedStorage";
constexpr std::string_view kOrderedDict = "collections OrderedDict", kSize = "torch Size",
                           kTensor = "torch._utils _rebuild_tensor_v2", kParameter = "torch._utils _rebuild_parameter",
                           kTensorOfDType = "torch._utils _rebuild_tensor_v3";

template <class Table>
auto find_in(const Table& table, std::string_view name) {
  return std::ranges::find(table, name, [](const auto& row) { return row.first; });
}

/// Whether a function's name is that of a dtype, such as "torch uint16".
bool is_dtype(std::string_view name) {
  constexpr std::string_view kModule = "torch ";
  if (!name.starts_with(kModule)) return false;
  name.remove_prefix(kModule.size());
  return std::ranges::any_of(std::array<std::string_view, 5>{"uint", "int", "float", "bits", "complex"},
                             [&](std::string_view start) {
                               return name.starts_with(start) && name.find_first_of("0123456789") == start.size();
                             });
}

/// The machine that a pickle is a program of: a stack of values, marks in it, and a memory.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& what, const FindStorage& find_storage)
      : rest_(bytes),
        what_(what),
        find_storage_(find_storage),
        copies_left_(1000 + 16 * bytes.size()),
        most_nodes_(1'000'000 + bytes.size() / 8) {}

  Pickle run() {
    while (step(take<uint8_t>())) {
    }
    result_.root = pop();
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    tendril::detail::raise<Error>(what_, ": its pickle ", problem);
  }

  // ---- the program's bytes
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view take_bytes(uint64_t count) {
    if (count > rest_.size()) fail("is cut short");
    const std::string_view taken(reinterpret_cast<const char*>(rest_.data()), count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::string_view take_line() {
    const std::string_view all(reinterpret_cast<const char*>(rest_.data()), rest_.size());
    const std::size_t end = all.find('\n');
    if (end == std::string_view::npos) fail("is cut short");
    rest_ = rest_.subspan(end + 1);
    return all.substr(0, end);
  }

  // ---- values
  PickleNode& node(Number number) { return result_.nodes[number]; }
  Number make(PickleNode value) {
    // A byte can be a value, which takes a hundred here; those of tensors take ten and more each.
    if (result_.nodes.size() >= most_nodes_) fail("holds too many values for its size");
    result_.nodes.push_back(std::move(value));
    return static_cast<Number>(result_.nodes.size() - 1);
  }
  void push(PickleNode value) { stack_.push_back(make(std::move(value))); }
  void push_integer(int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_text(std::string_view value) { push({.kind = Kind::text, .text = std::string(value)}); }
  Number pop() {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) fail("is damaged: it takes a value where there is none");
    const Number top = stack_.back();
    stack_.pop_back();
    return top;
  }
  /// The values above the last mark, which is taken away.
  std::vector<Number> pop_marked() {
    if (marks_.empty()) fail("is damaged: it goes back to a mark where there is none");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Number> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }
  void push_list(std::vector<Number> parts) { push({.kind = Kind::list, .parts = std::move(parts)}); }
  void push_tuple_of(int count) {
    std::vector<Number> parts(static_cast<std::size_t>(count));
    for (std::size_t i = parts.size(); i-- > 0;) parts[i] = pop();
    push_list(std::move(parts));
  }
  /// The value that the topmost one, already taken, is put into.
  PickleNode& container(Kind kind) {
    const Number top = pop();
    stack_.push_back(top);
    if (node(top).kind != kind) fail("is damaged: it puts a value into what holds none");
    return node(top);
  }
  void extend(Kind kind, const std::vector<Number>& parts) {
    PickleNode& target = container(kind);
    if (kind == Kind::dict && parts.size() % 2 != 0) fail("is damaged: a key has no value");
    target.parts.insert(target.parts.end(), parts.begin(), parts.end());
  }

  void remember(uint64_t where) {
    if (stack_.empty()) fail("is damaged: it remembers a value where there is none");
    memory_[where] = stack_.back();
  }
  void recall(uint64_t where) {
    const auto found = memory_.find(where);
    if (found == memory_.end()) fail("is damaged: it recalls a value that it did not remember");
    stack_.push_back(found->second);
  }

  void push_long(uint64_t bytes) {
    const std::string_view digits = take_bytes(bytes);
    if (bytes > sizeof(int64_t)) fail("has an integer of over 64 bits");
    uint64_t value = bytes > 0 && (digits.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    std::memcpy(&value, digits.data(), digits.size());
    push_integer(static_cast<int64_t>(value));
  }
  void push_floating() {
    uint64_t bits = 0;
    for (const char byte : take_bytes(sizeof bits)) bits = bits << 8 | static_cast<unsigned char>(byte);
    push({.kind = Kind::floating, .floating = std::bit_cast<double>(bits)});
  }

  // ---- what a pickle may ask for
  void push_function(const std::string& name) {
    const bool storage = find_in(kStorages, name) != kStorages.end() ||
                         find_in(kOtherStorages, name) != kOtherStorages.end() || name == kUntypedStorage;
    if (!storage && name != kOrderedDict && name != kSize && name != kTensor && name != kParameter &&
        name != kTensorOfDType && !is_dtype(name)) {
      std::string dotted = name;
      std::ranges::replace(dotted, ' ', '.');
      tendril::detail::raise<Error>(what_, ": asks for ", dotted,
                                    ", which is not run: expected tensors of float64, float32, "
                                    "float16, bfloat16, int64, int32, uint8 and bool, and containers of them");
    }
    push({.kind = Kind::function, .text = name});
  }
  void call() {
    const Number arguments = pop(), function = pop();
    if (node(function).kind != Kind::function || node(arguments).kind != Kind::list) {
      fail("is damaged: it calls what is no function");
    }
    const std::string name = node(function).text;
    spend(node(arguments).parts.size());
    const std::vector<Number> given = node(arguments).parts;
    if (name == kOrderedDict) {
      make_ordered_dict(given);
    } else if (name == kSize && given.size() == 1 && node(given[0]).kind == Kind::list) {
      stack_.push_back(given[0]);
    } else if (name == kTensor && given.size() >= 4) {
      make_tensor(given);
    } else if (name == kTensorOfDType && given.size() >= 7 && is_dtype(node(given[6]).text)) {
      push({.kind = Kind::other_tensor, .text = node(given[6]).text.substr(std::string_view("torch ").size())});
    } else if (name == kParameter && !given.empty() &&
               (node(given[0]).kind == Kind::tensor || node(given[0]).kind == Kind::other_tensor)) {
      stack_.push_back(given[0]);
    } else {
      fail("is damaged: it calls " + name + " with arguments that it does not take");
    }
  }
  /// Before `count` values are copied: a few bytes can ask for many copies of one long list.
  void spend(uint64_t count) {
    if (count > copies_left_) fail("copies too many values for its size");
    copies_left_ -= count;
  }
  void make_ordered_dict(const std::vector<Number>& given) {
    PickleNode dict{.kind = Kind::dict};
    if (!given.empty()) {
      if (node(given[0]).kind != Kind::list) fail("is damaged: an OrderedDict is made of no list");
      spend(node(given[0]).parts.size());
      for (const Number pair : node(given[0]).parts) {
        if (node(pair).kind != Kind::list || node(pair).parts.size() != 2)
          fail("is damaged: an OrderedDict is made of no pairs");
        dict.parts.insert(dict.parts.end(), node(pair).parts.begin(), node(pair).parts.end());
      }
    }
    push(std::move(dict));
  }
  std::vector<int64_t> integers(Number list) {
    std::vector<int64_t> values;
    if (node(list).kind != Kind::list) fail("is damaged: a tensor's sizes are no tuple");
    for (const Number part : node(list).parts) {
      if (node(part).kind != Kind::integer) fail("is damaged: a tensor's sizes are no integers");
      values.push_back(node(part).integer);
    }
    return values;
  }
  /// (storage, offset, sizes, strides, ...): whether it needs a gradient, and hooks, is nothing that is loaded.
  void make_tensor(const std::vector<Number>& given) {
    const PickleNode storage = node(given[0]);
    if (storage.kind != Kind::storage || node(given[1]).kind != Kind::integer)
      fail("is damaged: a tensor has no storage");
    if (!storage.other_dtype.empty())
      return push({.kind = Kind::other_tensor, .text = std::string(storage.other_dtype)});
    const int64_t offset = node(given[1]).integer;
    const std::string label = what_ + ": a tensor on storage '" + storage.text + "'";
    const Dims sizes = sizes_of(integers(given[2]), label);
    const std::vector<int64_t> strides = integers(given[3]);
    TENDRIL_CHECK(strides.size() == static_cast<std::size_t>(sizes.size()), label, ": has ", sizes.size(),
                  " sizes, but ", strides.size(), " strides");
    Tensor tensor;
    try {
      tensor = raw::on_storage(find_storage_(storage.text, storage.dtype, storage.integer), sizes, strides, offset,
                               storage.dtype);
    } catch (const ShapeError& error) {
      tendril::detail::raise<Error>(label, ": ", error.what());
    }
    push({.kind = Kind::tensor, .tensor = tensor});
  }
  /// ("storage", type, key, device, elements)
  void push_persistent() {
    const Number id = pop();
    const std::vector<Number>& parts = node(id).parts;
    if (node(id).kind != Kind::list || parts.size() != 5 || node(parts[0]).text != "storage" ||
        node(parts[1]).kind != Kind::function || node(parts[2]).kind != Kind::text ||
        node(parts[4]).kind != Kind::integer || node(parts[4]).integer < 0) {
      fail("is damaged: it refers to something that is no storage");
    }
    PickleNode storage{.kind = Kind::storage, .integer = node(parts[4]).integer, .text = node(parts[2]).text};
    const std::string_view type = node(parts[1]).text;
    const auto known = find_in(kStorages, type);
    const auto other = find_in(kOtherStorages, type);
    if (known != kStorages.end()) {
      storage.dtype = known->second;
    } else if (other != kOtherStorages.end()) {
      storage.other_dtype = other->second;
    } else if (type == kUntypedStorage) {
      storage.other_dtype = "untyped";
    } else {
      fail("is damaged: a storage has no dtype");
    }
    push(std::move(storage));
  }

  bool step(uint8_t code);
  bool step_value(uint8_t code);

  std::span<const std::byte> rest_;
  const std::string& what_;
  const FindStorage& find_storage_;
  uint64_t copies_left_;
  const uint64_t most_nodes_;
  Pickle result_;
  std::vector<Number> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<uint64_t, Number> memory_;
};

/// Containers, memory and calls. False at the end.
bool Machine::step(uint8_t code) {
  switch (code) {
    case 0x80:  // PROTO
      if (const auto version = take<uint8_t>(); version < 2 || version > 5) {
        fail("has protocol " + std::to_string(version) + ", expected 2 to 5");
      }
      return true;
    case 0x95:  // FRAME
      take<uint64_t>();
      return true;
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case ')':
    case ']':
      push_list({});
      return true;
    case '}':
      push({.kind = Kind::dict});
      return true;
    case 't':
      push_list(pop_marked());
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_tuple_of(code - 0x84);
      return true;
    case 'a':
      extend(Kind::list, {pop()});
      return true;
    case 'e':
      extend(Kind::list, pop_marked());
      return true;
    case 's': {
      const Number value = pop(), key = pop();
      extend(Kind::dict, {key, value});
      return true;
    }
    case 'u':
      extend(Kind::dict, pop_marked());
      return true;
    case 'q':
      remember(take<uint8_t>());
      return true;
    case 'r':
      remember(take<uint32_t>());
      return true;
    case 0x94:  // MEMOIZE
      remember(memory_.size());
      return true;
    case 'h':
      recall(take<uint8_t>());
      return true;
    case 'j':
      recall(take<uint32_t>());
      return true;
    case 'c': {
      const std::string module(take_line());
      push_function(module + " " + std::string(take_line()));
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const Number name = pop(), module = pop();
      if (node(name).kind != Kind::text || node(module).kind != Kind::text) fail("is damaged: a function has no name");
      push_function(node(module).text + " " + node(name).text);
      return true;
    }
    case 'R':
      call();
      return true;
    case 'Q':
      push_persistent();
      return true;
    case 'b':  // attributes of an OrderedDict: a state_dict's _metadata
      pop();
      container(Kind::dict);
      return true;
    case '.':
      return false;
    default:
      return step_value(code);
  }
}

bool Machine::step_value(uint8_t code) {
  switch (code) {
    case 'N':
      push({});
      return true;
    case 0x88:
    case 0x89:
      push({.kind = Kind::boolean, .integer = code == 0x88});
      return true;
    case 'K':
      push_integer(take<uint8_t>());
      return true;
    case 'M':
      push_integer(take<uint16_t>());
      return true;
    case 'J':
      push_integer(take<int32_t>());
      return true;
    case 0x8a:  // LONG1
      push_long(take<uint8_t>());
      return true;
    case 'G':
      push_floating();
      return true;
    case 'X':
      push_text(take_bytes(take<uint32_t>()));
      return true;
    case 0x8c:  // SHORT_BINUNICODE
      push_text(take_bytes(take<uint8_t>()));
      return true;
    case 0x8d:  // BINUNICODE8
      push_text(take_bytes(take<uint64_t>()));
      return true;
    default:
      fail("has the instruction " + std::to_string(code) + ", which torch.save does not use for state_dicts");
  }
}

}  // namespace

Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& what, const FindStorage& find_storage) {
  TENDRIL_CHECK(bytes.size() < UINT32_MAX, what, ": its pickle has ", bytes.size(), " bytes, expected fewer than 2^32");
  return Machine(bytes, what, find_storage).run();
}

}  // namespace tendril::files::detail
