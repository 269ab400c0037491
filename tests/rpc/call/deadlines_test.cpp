// Deadlines, compared with std::multimap.
#include "tendril/rpc/call/deadlines.h"
#include "tests/seed.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(deadlines)

using tendril::rpc::Clock;
using tendril::rpc::detail::Deadlines;
using tendril::testing::test_seed;

namespace {

Clock::time_point at(uint64_t seconds) { return Clock::time_point(std::chrono::seconds(seconds)); }

}  // namespace

BOOST_AUTO_TEST_CASE(earliest_deadline_is_always_first) {
  std::mt19937_64 random(test_seed());
  Deadlines deadlines;
  std::vector<uint32_t> positions(5000, Deadlines::kNowhere);  // by place
  const auto moved = [&](uint32_t place, uint32_t position) { positions[place] = position; };
  std::multimap<Clock::time_point, uint32_t> map;
  for (int i = 0; i < 20'000; ++i) {
    const auto place = static_cast<uint32_t>(random() % positions.size());
    if (positions[place] == Deadlines::kNowhere) {
      const Clock::time_point when = at(random() % 1000);
      deadlines.reserve_one();
      deadlines.add(when, place, moved);
      map.emplace(when, place);
    } else {
      deadlines.remove(positions[place], moved);
      positions[place] = Deadlines::kNowhere;
      map.erase(std::find_if(map.begin(), map.end(), [&](const auto& entry) { return entry.second == place; }));
    }
    BOOST_REQUIRE(deadlines.empty() == map.empty());
    BOOST_REQUIRE((deadlines.earliest() == (map.empty() ? Clock::time_point::max() : map.begin()->first)));
  }
  Clock::time_point before = at(0);
  while (!deadlines.empty()) {
    BOOST_REQUIRE(before <= deadlines.earliest());
    before = deadlines.earliest();
    const uint32_t place = deadlines.place_of_earliest();
    BOOST_REQUIRE(positions[place] == 0u);
    deadlines.remove(0, moved);
  }
  BOOST_TEST((before == map.rbegin()->first));
}

BOOST_AUTO_TEST_CASE(adding_the_latest_moves_no_other) {
  Deadlines deadlines;
  int moves = 0;
  const auto moved = [&](uint32_t, uint32_t) { ++moves; };
  for (uint32_t place = 0; place < 100'000; ++place) deadlines.add(at(place), place, moved);
  moves = 0;
  deadlines.add(at(100'000), 100'000, moved);
  BOOST_TEST(moves == 1);  // the added one
  deadlines.remove(100'000, moved);
  BOOST_TEST(moves == 1);
  deadlines.remove(0, moved);
  BOOST_TEST(moves < 1 + 2 * 17);
}

BOOST_AUTO_TEST_SUITE_END()
