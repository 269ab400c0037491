#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "tendril/tensor/detail/memory_limit.h"
#include "tests/temporary_folder.h"

using namespace tendril;

BOOST_AUTO_TEST_SUITE(memory_limit)

BOOST_AUTO_TEST_CASE(the_least_limit_of_a_group_and_those_around_it_counts) {
  const testing::TemporaryFolder root;
  const auto limit_of = [&](const char* group) {
    return memory::detail::group_memory_limit(root.path().string(), group, "memory.max");
  };
  BOOST_TEST(limit_of("/") == SIZE_MAX);  // no files
  BOOST_TEST(limit_of("/jobs/ours") == SIZE_MAX);
  std::filesystem::create_directories(root / "jobs/ours");
  testing::write_bytes(root / "jobs/ours/memory.max", "max\n");
  testing::write_bytes(root / "jobs/memory.max", "3000000000\n");
  BOOST_TEST(limit_of("/jobs/ours") == 3'000'000'000U);
  BOOST_TEST(limit_of("/jobs") == 3'000'000'000U);
  BOOST_TEST(limit_of("/") == SIZE_MAX);
  testing::write_bytes(root / "memory.max", "2000000000\n");  // as a container sees its own
  BOOST_TEST(limit_of("/jobs/ours") == 2'000'000'000U);
  BOOST_TEST(limit_of("/somewhere/else") == 2'000'000'000U);
  testing::write_bytes(root / "jobs/ours/memory.max", "1000000000\n");
  BOOST_TEST(limit_of("/jobs/ours") == 1'000'000'000U);
}

BOOST_AUTO_TEST_CASE(this_process_may_use_some_memory) { BOOST_TEST(memory::detail::usable_memory() > 0U); }

BOOST_AUTO_TEST_SUITE_END()
