// The table of calls by number, beside the standard library's.
#include "tendril/rpc/call/call_table.h"
#include "tests/seed.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <random>

BOOST_AUTO_TEST_SUITE(call_table)

using tendril::rpc::detail::CallTable;
using tendril::testing::test_seed;

BOOST_AUTO_TEST_CASE(it_holds_what_a_map_holds_whatever_comes_and_goes) {
  for (const uint64_t stride : {1, 3, 16, 1024}) {  // numbers of a power of two apart want the same place
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

BOOST_AUTO_TEST_CASE(what_is_not_there_is_not_found) {
  CallTable<int> table;
  BOOST_TEST(!table.contains(1));
  BOOST_TEST(!table.take(1).has_value());
  table.insert(1, 10);
  BOOST_TEST(!table.contains(17));  // of the same place
  BOOST_TEST((table.find(1) && *table.find(1) == 10));
  CallTable<int> other;
  table.swap(other);
  BOOST_TEST(table.empty());
  BOOST_TEST(other.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
