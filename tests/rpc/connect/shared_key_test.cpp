// Tests shared keys and their files.
#include "tendril/rpc/shared_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tendril/rpc/connect/key_folder.h"
#include "tendril/rpc/error.h"
#include "tests/rpc/error_text.h"

BOOST_AUTO_TEST_SUITE(shared_key)

using namespace tendril::rpc;
using tendril::test::contains;
using tendril::test::text_of_error;

namespace {

namespace fs = std::filesystem;

/// A folder for one test.
struct Folder {
  Folder() {
    char name[] = "/tmp/tendril_key_test_XXXXXX";
    BOOST_REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& content, mode_t mode = 0600, const std::string& name = "key") const {
    std::string where = path + "/" + name;
    std::ofstream(where, std::ios::binary) << content;
    BOOST_REQUIRE(::chmod(where.c_str(), mode) == 0);
    return where;
  }

  std::string path;
};

std::string text(const SharedKey& key) {
  return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
}

std::string complaint(const std::string& path) {
  return text_of_error([&] { SharedKey::from_file(path); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(default_key_is_empty) {
  const SharedKey none;
  BOOST_TEST(!none);
  BOOST_TEST(none.bytes().empty());
  const SharedKey a = SharedKey::random(), b = SharedKey::random();
  BOOST_TEST(a.bytes().size() == 32u);
  BOOST_TEST(text(a) != text(b));
  const SharedKey copy = a;  // NOLINT(performance-unnecessary-copy-initialization): it is what is asked
  BOOST_TEST(text(copy) == text(a));
}

BOOST_AUTO_TEST_CASE(key_has_16_to_1024_bytes) {
  for (const std::size_t size : {16, 1024}) BOOST_TEST(SharedKey(std::vector<std::byte>(size)).bytes().size() == size);
  for (const std::size_t size : {0, 15, 1025}) {
    BOOST_CHECK_THROW(SharedKey(std::vector<std::byte>(size)), UsageError);
  }
}

BOOST_AUTO_TEST_CASE(key_file_is_read_completely) {
  const Folder folder;
  const std::string content = std::string("16 bytes\n\0 more\n", 16);
  BOOST_TEST(text(SharedKey::from_file(folder.file(content))) == content);
  BOOST_TEST(text(SharedKey::from_file(folder.file(content, 0400, "readable"))) == content);
  BOOST_TEST(text(SharedKey::from_file(folder.file(std::string(1024, 'x')))).size() == 1024u);
}

BOOST_AUTO_TEST_CASE(unsafe_or_missized_key_files_are_refused) {
  const Folder folder;
  const std::string good(32, 'k');
  for (const mode_t mode : {0640, 0604, 0620, 0601, 0666}) {
    BOOST_TEST(contains(complaint(folder.file(good, mode)), "chmod 600"));
  }
  BOOST_TEST(contains(complaint(folder.file("short")), "has 5 bytes, expected 16 to 1024"));
  BOOST_TEST(contains(complaint(folder.file(std::string(1 << 20, 'x'))), "expected 16 to 1024"));
  BOOST_TEST(contains(complaint(folder.path + "/nothing"), "cannot be opened"));
  BOOST_TEST(contains(complaint(folder.path), "not a regular file"));
  BOOST_REQUIRE(::mkfifo((folder.path + "/pipe").c_str(), 0600) == 0);
  BOOST_TEST(contains(complaint(folder.path + "/pipe"), "not a regular file"));
  if (::geteuid() == 0) {
    const std::string foreign = folder.file(good, 0600, "foreign");
    BOOST_REQUIRE(::chown(foreign.c_str(), 12345, 12345) == 0);
    BOOST_TEST(contains(complaint(foreign), "belongs to user 12345"));
  }
}

BOOST_AUTO_TEST_CASE(errors_do_not_show_keys) {
  const Folder folder;
  const std::string secret = "SECRETSECRETSECRET";
  BOOST_TEST(!contains(complaint(folder.file(secret, 0644)), "SECRET"));
  BOOST_TEST(!contains(complaint(folder.file("SECRET")), "SECRET"));
  BOOST_TEST(!contains(SharedKey::from_file(folder.file(secret)).origin(), "SECRET"));
}

BOOST_AUTO_TEST_CASE(user_key_is_created_once) {
  const Folder folder;
  const std::string where = folder.path + "/tendril";
  std::vector<std::string> seen(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& one : seen) threads.emplace_back([&] { one = text(detail::key_in_folder(where)); });
  }
  for (const std::string& one : seen) BOOST_TEST((one == seen[0] && one.size() == 32));
  struct stat info {};
  BOOST_REQUIRE(::stat((where + "/key").c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 07777) == 0600u);
  BOOST_REQUIRE(::stat(where.c_str(), &info) == 0);
  BOOST_TEST((info.st_mode & 07777) == 0700u);
  BOOST_TEST(std::distance(fs::directory_iterator(where), {}) == 1);  // no temporary file is left
}

BOOST_AUTO_TEST_CASE(user_key_open_to_others_is_refused) {
  const Folder folder;
  const auto error = [&](const std::string& where) { return text_of_error([&] { detail::key_in_folder(where); }); };
  const std::string open = folder.path + "/open";
  fs::create_directory(open);
  BOOST_REQUIRE(::chmod(open.c_str(), 0755) == 0);
  BOOST_TEST(contains(error(open), "must belong to this user alone"));
  const std::string mine = folder.path + "/mine", link = folder.path + "/link";
  detail::key_in_folder(mine);
  BOOST_REQUIRE(::symlink(mine.c_str(), link.c_str()) == 0);
  BOOST_TEST(contains(error(link), "must belong to this user alone"));
  BOOST_REQUIRE(::chmod((mine + "/key").c_str(), 0644) == 0);
  BOOST_TEST(contains(error(mine), "chmod 600"));
  BOOST_TEST(contains(error(folder.path + "/no/such"), "cannot create the folder"));
  if (::geteuid() == 0) {
    const std::string foreign = folder.path + "/foreign";
    fs::create_directory(foreign);
    BOOST_REQUIRE(::chmod(foreign.c_str(), 0700) == 0 && ::chown(foreign.c_str(), 12345, 12345) == 0);
    BOOST_TEST(contains(error(foreign), "belongs to another user (uid 12345)"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
