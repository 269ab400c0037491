#include "tendril/tensor/files/detail/atomic_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>
#include <functional>

#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"
#include "tests/temporary_folder.h"

BOOST_AUTO_TEST_SUITE(atomic_file)

using namespace tendril;
using files::detail::AtomicFile;
using tendril::testing::read_bytes;
using tendril::testing::says;
using tendril::testing::TemporaryFolder;
using tendril::testing::write_bytes;

namespace {

constexpr int kSkipped = 77;

/// The status with which `what` ends in a process of its own.
int in_child(const std::function<int()>& what) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = what();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A file system of 64 KiB in place of the folder, which only this process sees; false where that is not permitted.
bool mount_small(const std::filesystem::path& folder) {
  const uid_t user = ::getuid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1\n";
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("none", folder.c_str(), "tmpfs", 0, "size=65536") == 0;
}

/// Every writer, on a place that has no room for 100 kB: a clear error, and the file that was there is as it was.
int check_no_room(const TemporaryFolder& folder, const std::string& reason) {
  const Tensor large = raw::ones({25000});
  const auto refused = [&](const std::string& op, const std::function<void()>& save) {
    try {
      save();
    } catch (const Error& error) {
      return says(op, "large", reason, "what was there before is unchanged")(error) && folder.size() == 1 &&
             read_bytes(folder / "large") == "old";
    }
    return false;
  };
  if (!refused("save_safetensors", [&] { save_safetensors({{"x", large}}, folder / "large"); })) return 1;
  if (!refused("save_npy", [&] { save_npy(large, folder / "large"); })) return 2;
  if (!refused("save_npz", [&] { save_npz({{"x", large}}, folder / "large"); })) return 3;
  try {
    save_safetensors_sharded({{"a", raw::ones({10})}, {"large", large}}, folder.path(), {.max_shard_bytes = 100});
    return 4;
  } catch (const Error&) {
    return folder.size() == 1 ? 0 : 5;  // the first shard is gone again
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_appears_when_it_is_committed_and_not_before) {
  const TemporaryFolder folder;
  {
    AtomicFile file("test", folder / "x");
    file.write("new");
    BOOST_TEST(!std::filesystem::exists(folder / "x"));
    file.commit();
    BOOST_TEST(file.written() == 3u);
  }
  BOOST_TEST(read_bytes(folder / "x") == "new");
  {
    AtomicFile file("test", folder / "x");
    file.write("newer, but not committed");
  }
  BOOST_TEST(read_bytes(folder / "x") == "new");
  BOOST_TEST(folder.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_killed_writer_leaves_nothing) {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  BOOST_TEST(in_child([&] {
               AtomicFile file("test", folder / "x");
               file.write(std::string(100000, 'x'));
               ::raise(SIGKILL);
               return 0;
             }) == -1);
  BOOST_TEST(read_bytes(folder / "x") == "old");
  BOOST_WARN(folder.size() == 1u);  // but for file systems that have no files without a name
}

BOOST_AUTO_TEST_CASE(a_new_file_has_the_permissions_of_any_new_file) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  AtomicFile file("test", folder / "x");
  file.commit();
  ::umask(before);
  struct stat status {};
  BOOST_REQUIRE(::stat((folder / "x").c_str(), &status) == 0);
  BOOST_TEST((status.st_mode & 0777) == 0640u);
}

BOOST_AUTO_TEST_CASE(a_link_stays_a_link) {
  const TemporaryFolder folder;
  write_bytes(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  AtomicFile file("test", folder / "link");
  file.write("new");
  file.commit();
  BOOST_TEST(std::filesystem::is_symlink(folder / "link"));
  BOOST_TEST(read_bytes(folder / "target") == "new");
}

BOOST_AUTO_TEST_CASE(links_lead_to_files_that_are_made_and_not_in_circles) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("target", folder / "link");
  std::filesystem::create_symlink(folder / "link", folder / "second");
  AtomicFile file("test", folder / "second");
  file.write("new");
  file.commit();
  BOOST_TEST(std::filesystem::is_symlink(folder / "link"));
  BOOST_TEST(std::filesystem::is_symlink(folder / "second"));
  BOOST_TEST(read_bytes(folder / "target") == "new");
  std::filesystem::create_symlink("there", folder / "here");
  std::filesystem::create_symlink("here", folder / "there");
  BOOST_CHECK_EXCEPTION(AtomicFile("test", folder / "here"), Error, says("test", "here", "circle"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_hands_on_its_permissions) {
  const TemporaryFolder folder;
  for (const mode_t mode : {mode_t{0600}, mode_t{0664}}) {
    write_bytes(folder / "x", "old");
    BOOST_REQUIRE(::chmod((folder / "x").c_str(), mode) == 0);
    AtomicFile file("test", folder / "x");
    file.write("new");
    file.commit();
    struct stat status {};
    BOOST_REQUIRE(::stat((folder / "x").c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 0777) == mode);
    BOOST_TEST(read_bytes(folder / "x") == "new");
  }
}

BOOST_AUTO_TEST_CASE(names_may_be_as_long_as_the_file_system_takes) {
  const TemporaryFolder folder;
  const std::string name(250, 'x');
  AtomicFile file("test", folder / name);
  file.write("new");
  file.commit();
  BOOST_TEST(read_bytes(folder / name) == "new");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_an_error_that_names_it) {
  const TemporaryFolder folder;
  BOOST_CHECK_EXCEPTION(save_npy(raw::ones({1}), folder / "absent" / "x.npy"), Error,
                        says("save_npy", "absent", "No such file"));
  BOOST_CHECK_EXCEPTION(save_npy(raw::ones({1}), folder.path()), Error, says("save_npy", "no regular file"));
}

BOOST_AUTO_TEST_CASE(a_file_that_may_not_grow_so_large_leaves_what_was_there) {
  BOOST_TEST(in_child([] {
               const TemporaryFolder folder;
               write_bytes(folder / "large", "old");
               std::signal(SIGXFSZ, SIG_IGN);
               const rlimit limit{50000, 50000};
               if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 98;
               return check_no_room(folder, "File too large");
             }) == 0);
}

BOOST_AUTO_TEST_CASE(a_full_disk_leaves_what_was_there) {
  const TemporaryFolder folder;
  const int status = in_child([&] {
    if (!mount_small(folder.path())) return kSkipped;
    write_bytes(folder / "large", "old");
    return check_no_room(folder, "No space left on device");
  });
  BOOST_WARN_MESSAGE(status != kSkipped, "no file system can be mounted here");
  BOOST_TEST((status == 0 || status == kSkipped), "status " << status);
}

BOOST_AUTO_TEST_SUITE_END()
