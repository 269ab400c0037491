// CallTable, compared with std::map.
#include "tendril/rpc/call/call_table.h"
#include "tests/seed.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <random>

BOOST_AUTO_TEST_SUITE(call_table)

using tendril::rpc::detail::CallTable;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(random_operations_match_std_map) {
  for (const uint64_t stride : {1, 3, 16, 1024}) {  // IDs that are a power of two apart share a chain
    std::mt19937_64 random(test_seed(stride));
    CallTable<std::unique_ptr<uint64_t>> table;
    std::map<uint64_t, uint64_t> map;
    uint64_t last = 0;
    for (int i = 0; i < 20000; ++i) {
      const bool grows = i % 4000 < 2000;
      if (map.empty() || random() % 10 < (grows ? 6u : 4u)) {
        last += stride;
        table.insert(last, std::make_unique<uint64_t>(i));
        map[last] = static_cast<uint64_t>(i);
      } else {
        auto at = map.lower_bound(random() % (last + 1));
        if (at == map.end()) at = map.begin();
        const auto taken = table.take(at->first);
        BOOST_REQUIRE(taken.has_value());
        BOOST_REQUIRE(**taken == at->second);
        BOOST_REQUIRE(!table.contains(at->first));
        map.erase(at);
      }
      BOOST_REQUIRE(table.size() == map.size());
      const uint64_t any = random() % (last + 2);
      BOOST_REQUIRE(table.contains(any) == map.contains(any));
      if (auto* const found = table.find(any)) BOOST_REQUIRE(**found == map.at(any));
    }
    std::map<uint64_t, uint64_t> seen;
    table.for_each([&](uint64_t id, const std::unique_ptr<uint64_t>& value) { seen[id] = *value; });
    BOOST_TEST((seen == map));
  }
}

namespace {

/// Counts the moves of all instances.
struct Counted {
  Counted() = default;
  Counted(Counted&&) noexcept { ++moves; }
  Counted& operator=(Counted&&) noexcept {
    ++moves;
    return *this;
  }
  static inline int moves = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(insert_and_take_move_no_other_call) {
  CallTable<Counted> table;
  uint64_t last = 0;
  while (last < 100'000) table.insert(++last, {});
  table.insert(last + 1, {});  // the table may grow for this one
  BOOST_TEST(table.take(last + 1).has_value());
  Counted::moves = 0;
  table.insert(last + 1, {});
  BOOST_TEST(table.take(last + 1).has_value());
  const int moves_of_one = Counted::moves;
  BOOST_TEST(moves_of_one <= 4);
  for (uint64_t id = 1; id <= last; id += 2) BOOST_REQUIRE(table.take(id).has_value());
  BOOST_TEST(Counted::moves <= moves_of_one * static_cast<int>(1 + last / 2));
}

BOOST_AUTO_TEST_CASE(places_are_stable_and_reused) {
  CallTable<uint64_t> table;
  const auto first = table.insert(1, 10), second = table.insert(2, 20);
  for (uint64_t id = 3; id < 1000; ++id) table.insert(id, 10 * id);  // the table grows
  BOOST_TEST(table.at(first) == 10u);
  BOOST_TEST(table.at(second) == 20u);
  BOOST_TEST(table.number(second) == 2u);
  BOOST_TEST(table.take(1).value() == 10u);
  BOOST_TEST(table.insert(1000, 5) == first);
}

BOOST_AUTO_TEST_CASE(missing_calls_are_not_found) {
  CallTable<int> table;
  BOOST_TEST(!table.contains(1));
  BOOST_TEST(!table.take(1).has_value());
  table.insert(1, 10);
  BOOST_TEST(!table.contains(17));  // in the same chain
  BOOST_TEST((table.find(1) && *table.find(1) == 10));
  CallTable<int> other;
  table.swap(other);
  BOOST_TEST(table.empty());
  BOOST_TEST(other.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
