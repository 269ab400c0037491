#include "tendril/nn/utils/summary_writer.h"

#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>

#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(summary_writer)

using namespace tendril;
using nn::utils::SummaryWriter;
using testing::read_bytes;
using testing::says;
using testing::TemporaryFolder;

BOOST_AUTO_TEST_CASE(it_writes_the_bytes_of_pytorchs) {
  const TemporaryFolder folder;
  std::filesystem::path file;
  {
    SummaryWriter writer(folder.path() / "runs" / "first");
    writer.add_scalar("loss/train", 0.1, 7, 1700000000.25);
    writer.add_scalar("loss/train", std::numeric_limits<double>::infinity(), 1'000'000'000'000, 1700000001);
    writer.add_text("sample", "to be or *not*", 300, 1700000002);
    writer.add_histogram("weights", raw::from_data<float>({-2.5f, -0.25f, 0, 0.25f, 0.25f, 3}, {2, 3}), 8, 1700000003);
    writer.add_histogram("above", raw::from_data<int64_t>({1, 4}, {2}), 9, 1700000004);
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

BOOST_AUTO_TEST_CASE(what_is_no_number_is_not_counted_and_nothing_at_all_is_an_error) {
  const TemporaryFolder folder;
  SummaryWriter with(folder / "with"), without(folder / "without");
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  with.add_histogram("x", raw::from_data<double>({nan, 1, -infinity, 2}, {4}), 1, 5);
  without.add_histogram("x", raw::from_data<double>({1, 2}, {2}), 1, 5);
  with.flush(), without.flush();
  const auto events = [](const SummaryWriter& writer) { return read_bytes(writer.file()).substr(40); };
  BOOST_TEST((events(with) == events(without)));
  const auto size = std::filesystem::file_size(with.file());
  for (const Tensor& none : {raw::zeros({0}), raw::full({2}, nan, kFloat64), raw::full({1}, 1e21, kFloat64)}) {
    BOOST_CHECK_EXCEPTION(with.add_histogram("x", none, 1), Error, says("add_histogram: values: got none"));
  }
  BOOST_CHECK_EXCEPTION(with.add_histogram("x", Tensor(), 1), Error, says("add_histogram", "undefined"));
  with.flush();
  BOOST_TEST(std::filesystem::file_size(with.file()) == size);
}

BOOST_AUTO_TEST_CASE(a_picture_is_a_png_file_with_its_size_beside_it) {
  const TemporaryFolder folder;
  std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\7\0\0\1\2\x08\2\0\0\0sums", 33);
  SummaryWriter writer(folder.path());
  const auto add = [&] { writer.add_image("x", std::as_bytes(std::span(png)), 3); };
  add();
  writer.flush();
  // height 258, width 7, 3 channels, 33 bytes of PNG
  BOOST_TEST(read_bytes(writer.file()).find(std::string("\x08\x82\2\x10\7\x18\3\"\x21", 9) + png) != std::string::npos);
  png[25] = 5;
  BOOST_CHECK_EXCEPTION(add(), Error, says("add_image: png", "7 x 258 pixels of colour type 5"));
  png[25] = 7;
  BOOST_CHECK_EXCEPTION(add(), Error, says("colour type 7"));
  png[1] = 'X';
  BOOST_CHECK_EXCEPTION(add(), Error, says("add_image: png: got 33 bytes that are no PNG file"));
  png.clear();
  BOOST_CHECK_EXCEPTION(add(), Error, says("got 0 bytes"));
}

BOOST_AUTO_TEST_CASE(two_writers_of_one_folder_have_files_of_their_own) {
  const TemporaryFolder folder;
  SummaryWriter one(folder.path()), two(folder.path());
  BOOST_TEST(one.file() != two.file());
  one.add_scalar("x", 1, 0);
  one.flush();
  BOOST_TEST(std::filesystem::file_size(one.file()) > std::filesystem::file_size(two.file()));
}

BOOST_AUTO_TEST_CASE(behind_a_write_that_failed_nothing_is_written) {
  const TemporaryFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  SummaryWriter writer(folder.path());
  writer.flush();
  const auto size = std::filesystem::file_size(writer.file());
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{size + 30, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  writer.add_scalar("loss", 1, 0);
  BOOST_CHECK_EXCEPTION(writer.flush(), Error, says("SummaryWriter", "write"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  BOOST_CHECK_EXCEPTION(writer.add_scalar("loss", 1, 1), Error, says("SummaryWriter", "an earlier write failed"));
  BOOST_CHECK_EXCEPTION(writer.flush(), Error, says("SummaryWriter", "an earlier write failed"));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_made_is_an_error_that_names_it) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "taken") << "a file";
  BOOST_CHECK_EXCEPTION(SummaryWriter(folder.path() / "taken"), Error, says("SummaryWriter: cannot make", "taken"));
}

BOOST_AUTO_TEST_SUITE_END()
