#include "tendril/nn/utils/summary_writer.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tendril/tensor/error.h"
#include "tests/errors.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(summary_writer)

using tendril::nn::utils::SummaryWriter;
using tendril::testing::read_bytes;

BOOST_AUTO_TEST_CASE(it_writes_the_bytes_of_pytorchs) {
  const tendril::testing::TemporaryFolder folder;
  std::filesystem::path file;
  {
    SummaryWriter writer(folder.path() / "runs" / "first");
    writer.add_scalar("loss/train", 0.1, 7, 1700000000.25);
    writer.add_scalar("loss/train", std::numeric_limits<double>::infinity(), 1'000'000'000'000, 1700000001);
    writer.add_text("sample", "to be or *not*", 300, 1700000002);
    file = writer.file();
  }
  const std::string written = read_bytes(file), wanted = read_bytes(TENDRIL_TEST_DATA "/summary.tfevents");
  BOOST_TEST_REQUIRE(written.size() > wanted.size());
  const std::string first = written.substr(0, written.size() - wanted.size());
  BOOST_TEST((written.substr(first.size()) == wanted));
  // length and its checksum, field 1 (wall time, 8 bytes), field 3 (a string of 13 bytes), checksum
  BOOST_TEST(first.size() == 8u + 4 + 9 + 2 + 13 + 4);
  BOOST_TEST(first.find("brain.Event:2") == 8u + 4 + 9 + 2);
}

BOOST_AUTO_TEST_CASE(two_writers_of_one_folder_have_files_of_their_own) {
  const tendril::testing::TemporaryFolder folder;
  SummaryWriter one(folder.path()), two(folder.path());
  BOOST_TEST(one.file() != two.file());
  one.add_scalar("x", 1, 0);
  one.flush();
  BOOST_TEST(std::filesystem::file_size(one.file()) > std::filesystem::file_size(two.file()));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  const tendril::testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "taken") << "a file";
  BOOST_CHECK_EXCEPTION(SummaryWriter(folder.path() / "taken"), tendril::Error,
                        tendril::testing::says("SummaryWriter: cannot make", "taken"));
}

BOOST_AUTO_TEST_SUITE_END()
