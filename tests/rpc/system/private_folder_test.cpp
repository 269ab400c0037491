#include "tendril/rpc/system/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tendril/rpc/error.h"

BOOST_AUTO_TEST_SUITE(private_folder)

namespace fs = std::filesystem;
using tendril::rpc::detail::PrivateFolder;
using tendril::rpc::detail::sweep_dead_folders;

namespace {

/// An empty folder for the test.
struct Base {
  Base() { BOOST_REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Base() { fs::remove_all(path); }

  /// Creates a folder like that of a worker that was killed long ago.
  fs::path abandoned(const std::string& name, mode_t mode = 0700) const {
    fs::path folder = fs::path(path) / name;
    BOOST_REQUIRE(::mkdir(folder.c_str(), mode) == 0);
    std::ofstream(folder / "socket").flush();
    make_old(folder);
    return folder;
  }
  static void make_old(const fs::path& folder) {
    timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    BOOST_REQUIRE(::utimensat(AT_FDCWD, folder.c_str(), times, 0) == 0);
  }

  std::string path = fs::temp_directory_path() / "folder-test-XXXXXX";
};

}  // namespace

BOOST_AUTO_TEST_CASE(folder_is_private_and_removed_at_end) {
  const Base base;
  {
    const PrivateFolder folder(base.path);
    struct stat info {};
    BOOST_REQUIRE(::stat(fs::path(folder.socket_path()).parent_path().c_str(), &info) == 0);
    BOOST_TEST((info.st_mode & 0777) == 0700u);
    std::ofstream(folder.socket_path()).flush();
  }
  BOOST_TEST(fs::is_empty(base.path));
}

BOOST_AUTO_TEST_CASE(failed_creation_throws) {
  BOOST_CHECK_THROW(PrivateFolder("/proc/self"), tendril::rpc::UsageError);
  BOOST_CHECK_THROW(PrivateFolder("/nowhere"), tendril::rpc::UsageError);
}

BOOST_AUTO_TEST_CASE(folders_of_killed_workers_are_swept) {
  const Base base;
  base.abandoned("tendril-aaaaaa");
  base.abandoned("tendril-bbbbbb");
  fs::create_directory(fs::path(base.path) / "tendril-recent");
  fs::permissions(fs::path(base.path) / "tendril-recent", fs::perms::owner_all);
  std::ofstream(fs::path(base.path) / "tendril-recent" / "socket").flush();  // killed a moment ago
  sweep_dead_folders(base.path);
  BOOST_TEST(fs::is_empty(base.path));
}

BOOST_AUTO_TEST_CASE(live_new_and_foreign_folders_are_kept) {
  const Base base;
  const PrivateFolder alive(base.path);
  Base::make_old(fs::path(alive.socket_path()).parent_path());
  fs::create_directory(fs::path(base.path) / "tendril-young1");  // its owner may be about to lock it
  base.abandoned("tendril-public", 0755);
  base.abandoned("tendril-longer-name");
  base.abandoned("other-aaaaaa");
  const fs::path full = base.abandoned("tendril-cccccc");
  std::ofstream(full / "letters").flush();
  Base::make_old(full);
  fs::create_directory_symlink(base.path + "/other-aaaaaa", base.path + "/tendril-dddddd");
  sweep_dead_folders(base.path);
  sweep_dead_folders("/nowhere");
  BOOST_TEST(fs::exists(fs::path(alive.socket_path()).parent_path()));
  BOOST_TEST(fs::exists(base.path + "/tendril-young1"));
  for (const char* name : {"tendril-public", "tendril-longer-name", "other-aaaaaa", "tendril-dddddd"})
    BOOST_TEST(fs::exists(fs::path(base.path) / name / "socket"), name);
  BOOST_TEST(fs::exists(full / "letters"));
}

BOOST_AUTO_TEST_SUITE_END()
