// The table of lent blocks and offered segments, without sockets and devices.
#include "tendril/rpc/device/lent_table.h"

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(lent_table)

using namespace tendril::rpc;
using detail::LentTable;

BOOST_AUTO_TEST_CASE(segment_is_usable_after_its_answer) {
  LentTable table;
  const LentTable::Opening first{1, 0}, elsewhere{1, 1};
  BOOST_TEST((table.offer(first) == LentTable::Offer::none));
  BOOST_CHECK_THROW(table.answered(first, true), MessageError);
  table.offered(first);
  BOOST_TEST((table.offer(first) == LentTable::Offer::made));
  BOOST_CHECK_THROW(table.answered(elsewhere, true), MessageError);
  table.answered(first, true);
  BOOST_TEST((table.offer(first) == LentTable::Offer::accepted));
  BOOST_CHECK_THROW(table.answered(first, false), MessageError);  // answered already
  table.offered(elsewhere);
  table.answered(elsewhere, false);
  BOOST_TEST((table.offer(elsewhere) == LentTable::Offer::refused));
  BOOST_TEST((table.offer(first) == LentTable::Offer::accepted));
}

BOOST_AUTO_TEST_CASE(block_is_kept_until_it_is_returned) {
  LentTable table;
  const auto block = std::make_shared<int>(0), other = std::make_shared<int>(0);
  const uint64_t id = table.lend(block), second = table.lend(other);
  BOOST_TEST(id == 1u);
  BOOST_TEST(second == 2u);
  BOOST_TEST(block.use_count() == 2);
  std::vector<LentTable::Block> out;
  // All or none: if one number is wrong, no block is returned.
  BOOST_CHECK_THROW(table.returned(std::vector<uint64_t>{id, 3}, out), MessageError);
  BOOST_TEST(table.lent() == 2u);
  table.returned(std::vector<uint64_t>{id}, out);
  BOOST_TEST(out.size() == 1u);
  BOOST_TEST(block.use_count() == 2);
  out.clear();
  BOOST_TEST(block.use_count() == 1);
  BOOST_CHECK_THROW(table.returned(std::vector<uint64_t>{id}, out), MessageError);  // returned already
  table.forget(std::vector<uint64_t>{second, second, 9}, out);
  BOOST_TEST(out.size() == 1u);
  BOOST_TEST(table.lent() == 0u);
}

BOOST_AUTO_TEST_CASE(repeated_number_is_returned_once) {
  LentTable table;
  const uint64_t id = table.lend(std::make_shared<int>(0));
  std::vector<LentTable::Block> out;
  table.returned(std::vector<uint64_t>{id, id}, out);
  BOOST_TEST(out.size() == 1u);
}

BOOST_AUTO_TEST_CASE(take_all_does_not_reset_numbers) {
  LentTable table;
  table.lend(std::make_shared<int>(0));
  table.lend(std::make_shared<int>(0));
  BOOST_TEST(table.take_all().size() == 2u);
  BOOST_TEST(table.lent() == 0u);
  BOOST_TEST(table.lend(std::make_shared<int>(0)) == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
