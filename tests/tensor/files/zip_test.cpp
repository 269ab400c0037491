#include "tendril/tensor/files/detail/zip.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tendril/tensor/error.h"
#include "tests/errors.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(zip)

using namespace tendril::files::detail;
using tendril::Error;
using tendril::testing::read_bytes;
using tendril::testing::says;
using tendril::testing::TemporaryFolder;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string archive(const std::vector<std::pair<std::string, std::string>>& members) {
  const TemporaryFolder folder;
  AtomicFile out("test", folder / "x.zip");
  ZipWriter writer(out);
  for (const auto& [name, text] : members) writer.add(name, bytes_of(text.substr(0, 2)), bytes_of(text).subspan(2));
  writer.finish();
  out.commit();
  return read_bytes(folder / "x.zip");
}

ZipReader open(const std::string& bytes) {
  std::vector<std::byte> buffer(bytes.size());
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return ZipReader(Bytes::of(std::move(buffer)), "x.zip");
}

std::string text_of(const ZipReader& reader, const std::string& name) {
  const auto content = reader.read(*reader.find(name), ZipReader::Checksum::check);
  return {reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()};
}

template <class T>
void put(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_checksum_is_the_standards) {
  BOOST_TEST(crc32(bytes_of("123456789")) == 0xcbf43926u);
  BOOST_TEST(crc32({}) == 0u);
  const std::string text = "a longer text, so that eight bytes at a time are many";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    BOOST_TEST(crc32(bytes_of(text).subspan(cut), crc32(bytes_of(text).first(cut))) == crc32(bytes_of(text)));
  }
}

BOOST_AUTO_TEST_CASE(members_are_found_by_name_where_they_can_be_mapped) {
  const ZipReader reader = open(archive({{"a", "first"}, {"folder/b", "second"}}));
  BOOST_TEST(reader.members().size() == 2u);
  BOOST_TEST(text_of(reader, "a") == "first");
  BOOST_TEST(text_of(reader, "folder/b") == "second");
  BOOST_TEST(reader.members()[1].begin % 64 == 0u);
  BOOST_TEST(!reader.find("b"));
}

BOOST_AUTO_TEST_CASE(a_comment_behind_the_directory_is_no_harm) {
  std::string bytes = archive({{"a", "first"}});
  put(bytes, bytes.size() - 2, uint16_t{5});
  BOOST_TEST(text_of(open(bytes + "hello"), "a") == "first");
}

BOOST_AUTO_TEST_CASE(members_may_not_overlap_nor_share_a_name) {
  BOOST_CHECK_EXCEPTION(open(archive({{"same", "first"}, {"same", "second"}})), Error,
                        says("x.zip", "'same'", "twice"));
  std::string bytes = archive({{"aa", "first"}, {"bb", "second"}});
  const std::size_t second =
      bytes.rfind("bb");  // its entry in the directory: name, extra field, of which the place is last
  put(bytes, second + 2 + 4 + 16, uint64_t{0});
  BOOST_CHECK_EXCEPTION(open(bytes), Error, says("x.zip", "'aa'", "'bb'", "overlap"));
  put(bytes, second + 2 + 4 + 16, uint64_t{3});
  BOOST_CHECK_EXCEPTION(open(bytes), Error, says("'bb'", "not where the directory says"));
  put(bytes, second + 2 + 4 + 16, uint64_t{1} << 63);
  BOOST_CHECK_EXCEPTION(open(bytes), Error, says("'bb'", "outside of the file"));
  put(bytes, second + 2 + 4, uint64_t{1} << 62);
  put(bytes, second + 2 + 4 + 8, uint64_t{1} << 62);
  put(bytes, second + 2 + 4 + 16, uint64_t{64 + 5});
  BOOST_CHECK_THROW(open(bytes), Error);
}

BOOST_AUTO_TEST_CASE(absurd_directories_are_refused) {
  std::string bytes = archive({{"a", "first"}});
  const std::size_t end64 = bytes.size() - 22 - 20 - 56;
  std::string many = bytes;
  put(many, end64 + 32, uint64_t{1} << 60);
  BOOST_CHECK_EXCEPTION(open(many), Error, says("x.zip", "members"));
  std::string far = bytes;
  put(far, end64 + 48, uint64_t{1} << 60);
  BOOST_CHECK_EXCEPTION(open(far), Error, says("x.zip", "outside"));
  std::string elsewhere = bytes;
  put(elsewhere, bytes.size() - 22 - 20 + 8, uint64_t{1} << 60);
  BOOST_CHECK_EXCEPTION(open(elsewhere), Error, says("x.zip", "outside"));
  BOOST_CHECK_EXCEPTION(open(std::string(100, 'x')), Error, says("x.zip", "no zip file"));
}

BOOST_AUTO_TEST_SUITE_END()
