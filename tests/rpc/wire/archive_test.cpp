#include "tendril/rpc/archive.h"

#include <boost/serialization/access.hpp>
#include <boost/serialization/base_object.hpp>
#include <boost/serialization/nvp.hpp>
#include <boost/serialization/split_free.hpp>
#include <boost/serialization/split_member.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tendril/tensor/raw.h"
#include "tests/contains.h"

namespace archive_test {

using namespace tendril;
using namespace tendril::rpc;

struct Point {
  int x = 0, y = 0;
  friend bool operator==(const Point&, const Point&) = default;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& x& y;
  }
};

class Private {
 public:
  Private() = default;
  explicit Private(std::string s) : secret(std::move(s)) {}
  friend bool operator==(const Private&, const Private&) = default;

 private:
  friend class boost::serialization::access;
  template <class Archive>
  void serialize(Archive& archive, const unsigned int) {
    archive& boost::serialization::make_nvp("secret", secret);
  }
  std::string secret;
};

struct Derived : Point {
  double z = 0;
  friend bool operator==(const Derived&, const Derived&) = default;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& boost::serialization::base_object<Point>(*this);
    archive& BOOST_SERIALIZATION_NVP(z);
  }
};

struct Split {
  int stored = 0;
  friend bool operator==(const Split&, const Split&) = default;
  template <class Archive>
  void save(Archive& archive, unsigned) const {
    const int doubled = 2 * stored;
    archive << doubled;
  }
  template <class Archive>
  void load(Archive& archive, unsigned) {
    archive >> stored;
    stored /= 2;
  }
  BOOST_SERIALIZATION_SPLIT_MEMBER()
};

struct Free {
  int value = 0;
  friend bool operator==(const Free&, const Free&) = default;
};
template <class Archive>
void serialize(Archive& archive, Free& free, unsigned) {
  archive& free.value;
}

struct FreeSplit {
  int value = 0;
  friend bool operator==(const FreeSplit&, const FreeSplit&) = default;
};

struct Empty {
  friend bool operator==(Empty, Empty) = default;
  template <class Archive>
  void serialize(Archive&, unsigned) {}
};

struct Tree {
  int label = 0;
  std::vector<Tree> children;
  friend bool operator==(const Tree&, const Tree&) = default;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& label& children;
  }
};

enum class Colour : uint16_t { red = 1, blue = 500 };

}  // namespace archive_test

namespace boost::serialization {
template <class Archive>
void save(Archive& archive, const archive_test::FreeSplit& value, unsigned) {
  archive << value.value;
}
template <class Archive>
void load(Archive& archive, archive_test::FreeSplit& value, unsigned) {
  archive >> value.value;
}
}  // namespace boost::serialization
BOOST_SERIALIZATION_SPLIT_FREE(archive_test::FreeSplit)

BOOST_AUTO_TEST_SUITE(archive)

namespace {

using namespace tendril;
using namespace tendril::rpc;
using namespace archive_test;

template <class T>
T round_trip(const T& value) {
  Message message;
  OutputArchive out(message);
  out << value;
  InputArchive in(message);
  T result{};
  in >> result;
  in.finish();
  return result;
}

template <class T>
bool survives(const T& value) {
  return round_trip(value) == value;
}

template <class T>
Bytes bytes_of(const T& value) {
  Message message;
  OutputArchive(message) << value;
  return message.payload;
}

Bytes raw_bytes(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

/// Returns the error of reading a T from these bytes, or an empty string.
template <class T>
std::string complaint(Bytes bytes) {
  Message message;
  message.payload = std::move(bytes);
  InputArchive in(message, "demo::f");
  in.expect(2, typeid(T));
  T value{};
  try {
    in >> value;
    in.finish();
  } catch (const MessageError& error) {
    return error.what();
  }
  return "";
}

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_and_enums_survive) {
  BOOST_TEST(survives(true));
  BOOST_TEST(survives('x'));
  BOOST_TEST(survives(std::numeric_limits<int8_t>::min()));
  BOOST_TEST(survives(uint16_t{65535}));
  BOOST_TEST(survives(-7));
  BOOST_TEST(survives(std::numeric_limits<int64_t>::min()));
  BOOST_TEST(survives(std::numeric_limits<std::size_t>::max()));
  BOOST_TEST(survives(1.5f));
  BOOST_TEST(survives(-0.1));
  BOOST_TEST(survives(std::numeric_limits<double>::infinity()));
  BOOST_TEST((round_trip(Colour::blue) == Colour::blue));
}

BOOST_AUTO_TEST_CASE(numbers_are_fixed_width_little_endian) {
  BOOST_TEST((bytes_of(int32_t{-2}) == raw_bytes({0xFE, 0xFF, 0xFF, 0xFF})));
  BOOST_TEST((bytes_of(uint64_t{0x0102}) == raw_bytes({2, 1, 0, 0, 0, 0, 0, 0})));
  BOOST_TEST((bytes_of(true) == raw_bytes({1})));
  BOOST_TEST((bytes_of(Colour::blue) == raw_bytes({0xF4, 0x01})));
  BOOST_TEST((bytes_of(std::string("ab")) == raw_bytes({2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'})));
  BOOST_TEST((bytes_of(std::optional<uint8_t>(9)) == raw_bytes({1, 9})));
  BOOST_TEST((bytes_of(std::variant<int, uint8_t>(uint8_t{9})) == raw_bytes({1, 0, 0, 0, 9})));
}

BOOST_AUTO_TEST_CASE(containers_survive) {
  BOOST_TEST(survives(std::string("with \0 inside", 13)));
  BOOST_TEST(survives(std::string()));
  BOOST_TEST(survives(std::vector<float>{1, 2, 3}));
  BOOST_TEST((survives(std::vector<bool>{true, false, true})));
  BOOST_TEST((survives(std::vector<std::vector<std::string>>{{"a", ""}, {}, {"b"}})));
  BOOST_TEST((survives(std::array<int, 3>{1, 2, 3})));
  BOOST_TEST((survives(std::array<std::string, 2>{"x", "y"})));
  BOOST_TEST((survives(std::list<int>{3, 1, 2})));
  BOOST_TEST((survives(std::deque<Point>{{1, 2}, {3, 4}})));
  BOOST_TEST((survives(std::set<std::string>{"b", "a"})));
  BOOST_TEST((survives(std::map<std::string, std::vector<int>>{{"a", {1}}, {"b", {}}})));
  BOOST_TEST((survives(std::unordered_map<int, Point>{{1, {1, 2}}, {2, {3, 4}}})));
  BOOST_TEST((survives(std::unordered_set<int>{5, 6})));
}

BOOST_AUTO_TEST_CASE(vocabulary_types_survive) {
  using namespace std::chrono_literals;
  BOOST_TEST((survives(std::pair<int, std::string>{1, "x"})));
  BOOST_TEST((survives(std::tuple<int, double, std::string>{1, 2.5, "x"})));
  BOOST_TEST((survives(std::tuple<>{})));
  BOOST_TEST((survives(std::optional<std::string>{"x"})));
  BOOST_TEST((survives(std::optional<std::string>{})));
  BOOST_TEST((survives(std::variant<std::monostate, int, std::string>{std::string("x")})));
  BOOST_TEST((survives(std::variant<std::monostate, int, std::string>{})));
  BOOST_TEST((round_trip(std::chrono::microseconds(12)) == 12us));
}

BOOST_AUTO_TEST_CASE(all_kinds_of_serialize_work) {
  BOOST_TEST((survives(Point{1, 2})));
  BOOST_TEST((survives(Private("x"))));
  Derived derived;
  derived.x = 4, derived.z = 2.5;
  BOOST_TEST((survives(derived)));
  BOOST_TEST((survives(Split{21})));
  BOOST_TEST((bytes_of(Split{21}) == bytes_of(42)));
  BOOST_TEST((survives(Free{3})));
  BOOST_TEST((survives(FreeSplit{3})));
  BOOST_TEST((survives(Tree{1, {{2, {}}, {3, {{4, {}}}}}})));
}

BOOST_AUTO_TEST_CASE(elements_without_bytes_are_counted) {
  BOOST_TEST((survives(std::vector<Empty>(5))));
  BOOST_TEST((survives(std::vector<std::monostate>(5))));
  BOOST_TEST((survives(std::vector<std::tuple<>>(3))));
}

BOOST_AUTO_TEST_CASE(tensors_are_out_of_band_in_order) {
  const Tensor a = raw::full({2}, 1.0), b = raw::full({3}, 2.0);
  Message message;
  OutputArchive(message) << std::vector<Tensor>{a, Tensor(), b} << std::map<std::string, Tensor>{{"a", a}};
  BOOST_TEST(message.tensors.size() == 3u);
  InputArchive in(message);
  std::vector<Tensor> list;
  std::map<std::string, Tensor> map;
  in >> list >> map;
  in.finish();
  BOOST_TEST(list.size() == 3u);
  BOOST_TEST(list[0].is_same(a));
  BOOST_TEST(!list[1].defined());
  BOOST_TEST(list[2].is_same(b));
  BOOST_TEST(map["a"].is_same(a));
}

BOOST_AUTO_TEST_CASE(state_dict_keeps_names_tensors_and_order) {
  const Tensor weight = raw::full({2}, 1.0);
  StateDict dict{{"layer.weight", weight}, {"a", raw::full({3}, 2.0)}};
  dict.insert("steps", 7);
  const StateDict came = round_trip(dict);
  BOOST_TEST(came.size() == 3u);
  BOOST_TEST(came.begin()->first == "layer.weight");
  BOOST_TEST(came.at("layer.weight").is_same(weight));
  BOOST_TEST(came.at("steps").item<int64_t>() == 7);
  BOOST_TEST(round_trip(StateDict()).empty());
}

BOOST_AUTO_TEST_CASE(invalid_state_dict_is_refused) {
  using Entries = std::vector<std::pair<std::string, Tensor>>;
  const auto complaint_of = [](const Entries& entries) {
    Message message;
    OutputArchive(message) << entries;
    InputArchive in(message, "demo::f");
    in.expect(1, typeid(StateDict));
    StateDict dict;
    try {
      in >> dict;
    } catch (const MessageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Tensor x = raw::full({1}, 1.0);
  BOOST_TEST(contains(complaint_of({{"a", x}, {"a", x}}), "'a'"));
  BOOST_TEST(contains(complaint_of({{"", x}}), "name"));
  BOOST_TEST(contains(complaint_of({{"a", Tensor()}}), "undefined"));
  BOOST_TEST(complaint_of({{"a", x}}) == "");
}

BOOST_AUTO_TEST_CASE(tensor_out_of_order_is_refused) {
  Message message;
  OutputArchive(message) << raw::full({2}, 1.0) << raw::full({2}, 2.0);
  message.payload[0] = std::byte{1};
  InputArchive in(message);
  Tensor tensor;
  BOOST_CHECK_THROW(in >> tensor, MessageError);
}

BOOST_AUTO_TEST_CASE(left_over_bytes_and_tensors_are_errors) {
  Message message;
  OutputArchive(message) << 1 << 2;
  InputArchive in(message);
  int value;
  in >> value;
  BOOST_CHECK_THROW(in.finish(), MessageError);

  Message tensors;
  tensors.tensors.push_back(raw::full({2}, 1.0));
  BOOST_CHECK_THROW(InputArchive(tensors).finish(), MessageError);
}

BOOST_AUTO_TEST_CASE(error_names_function_argument_type_and_position) {
  const std::string text = complaint<std::vector<std::string>>(raw_bytes({1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0}));
  BOOST_TEST(contains(text, "argument 2"), text);
  BOOST_TEST(contains(text, "std::vector<std::string>"), text);
  BOOST_TEST(contains(text, "demo::f"), text);
  BOOST_TEST(contains(text, "byte 8 of 11"), text);
}

BOOST_AUTO_TEST_CASE(count_is_checked_before_allocation) {
  const Bytes huge = raw_bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F});
  BOOST_TEST(contains(complaint<std::string>(huge), "9223372036854775807 elements"));
  BOOST_TEST(contains(complaint<std::vector<double>>(huge), "elements"));
  BOOST_TEST(contains(complaint<std::vector<bool>>(huge), "elements"));
  BOOST_TEST(contains(complaint<std::list<int>>(huge), "elements"));
  BOOST_TEST(contains((complaint<std::map<int, int>>(huge)), "elements"));
  BOOST_TEST(contains((complaint<std::vector<Empty>>(huge)), "elements"));
  // Two doubles are announced, but only 15 bytes follow.
  Bytes two = raw_bytes({2, 0, 0, 0, 0, 0, 0, 0});
  two.resize(8 + 15);
  BOOST_TEST(contains(complaint<std::vector<double>>(two), "elements"));
}

BOOST_AUTO_TEST_CASE(invalid_values_are_refused) {
  BOOST_TEST(contains(complaint<bool>(raw_bytes({2})), "neither 0 nor 1"));
  BOOST_TEST(contains(complaint<std::vector<bool>>(raw_bytes({1, 0, 0, 0, 0, 0, 0, 0, 2})), "neither 0 nor 1"));
  BOOST_TEST(contains(complaint<std::optional<int>>(raw_bytes({3, 0, 0, 0, 0})), "neither 0 nor 1"));
  BOOST_TEST(contains((complaint<std::variant<int, char>>(raw_bytes({2, 0, 0, 0, 0}))), "unknown alternative"));
  BOOST_TEST(contains(complaint<std::set<uint8_t>>(raw_bytes({2, 0, 0, 0, 0, 0, 0, 0, 7, 7})), "duplicate key"));
  BOOST_TEST(contains((complaint<std::map<uint8_t, uint8_t>>(raw_bytes({2, 0, 0, 0, 0, 0, 0, 0, 7, 1, 7, 2}))),
                      "duplicate key"));
}

BOOST_AUTO_TEST_CASE(nesting_is_limited_on_both_sides) {
  Tree deep;
  Tree* at = &deep;
  for (int i = 0; i < 60; ++i) {
    at->children.emplace_back();
    at = &at->children.back();
  }
  BOOST_CHECK_THROW(bytes_of(deep), MessageError);

  Bytes hostile;
  for (int i = 0; i < 60; ++i) {
    const Bytes level = raw_bytes({0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0});
    hostile.insert(hostile.end(), level.begin(), level.end());
  }
  BOOST_TEST(contains(complaint<Tree>(hostile), "nested too deeply"));
}

BOOST_AUTO_TEST_CASE(truncations_and_bit_flips_are_survived) {
  using Everything = std::tuple<std::vector<std::string>, std::map<int, std::vector<double>>, std::optional<Point>,
                                std::variant<int, std::string>, std::vector<bool>, Tree>;
  const Everything value{{"one", "two"}, {{1, {1.5}}, {2, {}}}, Point{1, 2}, std::string("x"), {true}, {1, {{2, {}}}}};
  const Bytes good = bytes_of(value);
  const auto read = [](const Bytes& bytes) {
    Message message;
    message.payload = bytes;
    Everything result;
    InputArchive in(message);
    in >> result;
    in.finish();
    return result;
  };
  BOOST_TEST((read(good) == value));
  for (std::size_t size = 0; size < good.size(); ++size) {
    BOOST_CHECK_THROW(read(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))), MessageError);
  }
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    try {
      BOOST_TEST(!(read(bad) == value));
    } catch (const MessageError&) {
    }
  }
}

BOOST_AUTO_TEST_CASE(pointers_cannot_be_sent) {
  static_assert(rpc::detail::is_pointer_like<int*>);
  static_assert(rpc::detail::is_pointer_like<std::shared_ptr<int>>);
  static_assert(rpc::detail::is_pointer_like<std::unique_ptr<int>>);
  static_assert(rpc::detail::is_pointer_like<std::weak_ptr<int>>);
  static_assert(!rpc::detail::is_pointer_like<std::string>);
}

BOOST_AUTO_TEST_SUITE_END()
