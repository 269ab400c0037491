// Tests the limit on unauthenticated connections, and the log of refused ones.
#include "tendril/rpc/connect/half_open.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(half_open)

using namespace tendril::rpc;
using namespace std::chrono_literals;
using detail::HalfOpen;
using detail::RefusalNotes;

namespace {

struct Stranger {
  bool closed = false;
  void close() { closed = true; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(oldest_connection_yields_after_half_a_second) {
  HalfOpen<Stranger> half_open(2);
  const Clock::time_point start{};
  std::vector<std::shared_ptr<Stranger>> all;
  const auto come = [&](Clock::time_point now) {
    if (!half_open.make_room(now)) return false;
    all.push_back(std::make_shared<Stranger>());
    half_open.add(all.back(), now);
    return true;
  };
  BOOST_TEST(come(start));
  BOOST_TEST(come(start + 100ms));
  BOOST_TEST(!come(start + 400ms));  // both are young
  BOOST_TEST(!all[0]->closed);
  BOOST_TEST(come(start + 500ms));
  BOOST_TEST((all[0]->closed && !all[1]->closed));
  half_open.remove(all[1].get());  // it has authenticated
  BOOST_TEST(come(start + 501ms));
  BOOST_TEST(!come(start + 502ms));
  all[2].reset();  // destroyed without `remove`
  BOOST_TEST(come(start + 10s));
  BOOST_TEST(half_open.size() == 2u);
}

BOOST_AUTO_TEST_CASE(refusals_are_logged_once_a_minute) {
  RefusalNotes notes;
  const Clock::time_point start{};
  BOOST_TEST(notes.add("a: noise", start).value() == "a: noise");
  for (int i = 0; i < 1000; ++i) BOOST_TEST(!notes.add("a: noise", start + 1s));
  BOOST_TEST(notes.add("b: noise", start + 2s).value() == "b: noise");
  BOOST_TEST(notes.add("a: noise", start + 61s).value() == "a: noise (and 1000 times more since this was last logged)");
  int lines = 0;
  for (int i = 0; i < 1000; ++i) lines += notes.add(std::to_string(i), start + 3s).has_value() ? 1 : 0;
  BOOST_TEST(lines <= 8);
  BOOST_TEST(notes.add("later", start + 200s).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
