// The main function of every test executable. TENDRIL_TEST_DEVICE=cuda makes the first CUDA device the default device
// (cmake/TendrilTest.cmake, DEVICES); if there is none, the tests are skipped. TENDRIL_TEST_DETERMINISTIC=0 leaves that
// device in the mode in which programs start (scripts/gpu_check.sh runs both). TENDRIL_TEST_SEED seeds random tests
// (tests/seed.h). TENDRIL_TEST_PART=K/N, with K from 1 to N, runs every N-th test case of each suite, starting with the
// K-th.
#define BOOST_TEST_NO_MAIN
#include <signal.h>
#include <unistd.h>

#include <boost/test/results_collector.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/device.h"
#include "tendril/tensor/random.h"
#include "tests/seed.h"
#include "tests/skip.h"

namespace {

/// Boost.Test's assertions write to state that they share without a lock: a test that makes one on another thread than
/// its own is a data race, found now and then. Here it is an error each time.
struct OneThreadAsserts final : boost::unit_test::test_observer {
  void assertion_result(boost::unit_test::assertion_result) override {
    if (std::this_thread::get_id() == main_thread) return;
    std::cerr << boost::unit_test::framework::current_test_case().full_name()
              << ": an assertion on another thread than the test's: keep the value, assert when the thread has ended\n";
    std::abort();
  }
  const std::thread::id main_thread = std::this_thread::get_id();
};

/// Seeds each test case and the default generator. Prints the seed if a case that used it fails.
struct Seeds final : boost::unit_test::test_observer {
  void test_unit_start(const boost::unit_test::test_unit& unit) override {
    if (unit.p_type != boost::unit_test::TUT_CASE) return;
    using namespace tendril::testing;
    seeds_detail::current_case = seeds_detail::hash(unit.full_name());
    ++seeds_detail::case_count;
    seeds_detail::drawn = seeds_detail::in_loop = false;
    failed_at.reset();
    line = seed_line();
    tendril::manual_seed(seeds_detail::seed_of_case(0x64656661756c74));  // "default"
    start = tendril::default_generator().state();
  }
  void assertion_result(boost::unit_test::assertion_result result) override {
    if (result == boost::unit_test::AR_FAILED && !failed_at) failed_at = loop_seed();
  }
  void test_unit_finish(const boost::unit_test::test_unit& unit, unsigned long) override {
    if (unit.p_type != boost::unit_test::TUT_CASE) return;
    using namespace tendril::testing;
    const bool drew = seeds_detail::drawn || tendril::default_generator().state() != start;
    seeds_detail::drawn = false;  // an abort between cases must not print a seed
    if (!drew || boost::unit_test::results_collector.results(unit.p_id).passed()) return;
    print_seed();
    if (!failed_at) failed_at = loop_seed();  // an exception ended the loop
    if (failed_at) std::cerr << "seed: it failed in a loop over seeds(), at " << *failed_at << std::endl;
  }
  static std::optional<std::uint64_t> loop_seed() {
    using namespace tendril::testing::seeds_detail;
    return in_loop ? std::optional(tendril::testing::seeds_detail::loop_seed.load()) : std::nullopt;
  }
  tendril::Generator::State start;
  std::optional<std::uint64_t> failed_at;  ///< the first seed of a loop over seeds() at which an assertion failed
  static inline std::string line;          ///< printed if a signal ends the process
};

/// Prints the seed if `signal` ends the process during a test case. The signal then has its default effect.
void print_seed_on(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;  // a sanitizer's
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  action.sa_handler = [](int which) {
    if (tendril::testing::seeds_detail::drawn) {
      [[maybe_unused]] ssize_t written = write(STDERR_FILENO, Seeds::line.data(), Seeds::line.size());
      if (const auto seed = Seeds::loop_seed()) {
        char text[96] = "seed: it ended in a loop over seeds(), at ";
        char* const end = std::to_chars(text + std::strlen(text), text + sizeof text - 1, *seed).ptr;
        *end = '\n';
        written = write(STDERR_FILENO, text, static_cast<std::size_t>(end + 1 - text));
      }
    }
    raise(which);  // delivered when this handler returns
  };
  sigaction(signal, &action, nullptr);
}

/// Removes the test cases that TENDRIL_TEST_PART does not select.
class Part final : public boost::unit_test::test_tree_visitor {
 public:
  Part(std::size_t part, std::size_t parts) : part_(part), parts_(parts) {}
  /// The value of TENDRIL_TEST_PART; 1/1 if it is not set. Throws setup_error if it is malformed.
  static Part from_environment() {
    const char* const variable = std::getenv("TENDRIL_TEST_PART");
    if (!variable) return {1, 1};
    std::size_t part = 0, parts = 0;
    std::istringstream text(variable);
    char slash = 0;
    if (!(text >> part >> slash >> parts) || slash != '/' || part < 1 || part > parts || !text.eof()) {
      throw boost::unit_test::framework::setup_error(std::string("TENDRIL_TEST_PART: got '") + variable +
                                                     "', expected K/N with K from 1 to N");
    }
    return {part, parts};
  }
  void apply() {
    boost::unit_test::traverse_test_tree(boost::unit_test::framework::master_test_suite(), *this, true);
    for (const auto& [suite, unit] : others_)
      boost::unit_test::framework::get<boost::unit_test::test_suite>(suite).remove(unit);
  }
  void visit(const boost::unit_test::test_case& unit) override {
    if (seen_[unit.p_parent_id]++ % parts_ != part_ - 1) others_.emplace_back(unit.p_parent_id, unit.p_id);
  }

 private:
  std::size_t part_, parts_;
  std::map<boost::unit_test::test_unit_id, std::size_t> seen_;  ///< cases of each suite so far
  std::vector<std::pair<boost::unit_test::test_unit_id, boost::unit_test::test_unit_id>> others_;
};

/// Throws setup_error unless every test case is in a file NAME_test.cpp whose suite is NAME: each CTest test runs the
/// suite of one file (cmake/TendrilTest.cmake), so that other cases would never run.
class CheckFiles final : public boost::unit_test::test_tree_visitor {
 public:
  bool test_suite_start(const boost::unit_test::test_suite& unit) override {
    if (unit.p_parent_id == boost::unit_test::framework::master_test_suite().p_id) suite_ = unit.p_name;
    return true;
  }
  void visit(const boost::unit_test::test_case& unit) override {
    const std::string file(unit.p_file_name.begin(), unit.p_file_name.end()), expected = suite_ + "_test.cpp";
    if (file != expected && !file.ends_with("/" + expected)) {
      throw boost::unit_test::framework::setup_error(file + ": test case " + unit.full_name() +
                                                     ": expected it in a suite and a file of the same name, NAME and "
                                                     "NAME_test.cpp");
    }
  }

 private:
  std::string suite_;
};

bool init_unit_test() {
  CheckFiles check_files;
  boost::unit_test::traverse_test_tree(boost::unit_test::framework::master_test_suite(), check_files, true);
  Part::from_environment().apply();
  static OneThreadAsserts one_thread_asserts;
  static Seeds seeds;
  boost::unit_test::framework::register_observer(one_thread_asserts);
  boost::unit_test::framework::register_observer(seeds);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  tendril::testing::seed_variable();  // exits if it is malformed
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) print_seed_on(signal);
  tendril::cuda::set_strict(true);  // cuDNN is called as it wants to be
  const char* const name = std::getenv("TENDRIL_TEST_DEVICE");
  if (const std::string_view device = name ? name : "cpu"; device == "cuda") {
    if (tendril::device_count(tendril::DeviceType::cuda) == 0) {
      std::cout << "skipped: no CUDA device\n";
      return 77;
    }
    const char* const mode = std::getenv("TENDRIL_TEST_DETERMINISTIC");
    const std::string_view deterministic = mode ? mode : "1";
    if (deterministic != "0" && deterministic != "1") {
      std::cerr << "TENDRIL_TEST_DETERMINISTIC: got '" << deterministic << "', expected '0' or '1'\n";
      return 2;
    }
    tendril::set_default_device({tendril::DeviceType::cuda, 0});
    tendril::cuda::set_convolution_tf32(false);              // results are expected to be as good as float32
    tendril::cuda::set_checked(true);                        // and errors where they happen
    tendril::cuda::set_deterministic(deterministic != "0");  // gradcheck wants equal runs to be equal
  } else if (device != "cpu") {
    std::cerr << "TENDRIL_TEST_DEVICE: got '" << device << "', expected 'cpu' or 'cuda'\n";
    return 2;
  }
  const int status = boost::unit_test::unit_test_main(init_unit_test, argc, argv);
  return status == 0 && tendril::testing::suite_skipped ? 77 : status;
}
