// Signals that arrive while oneDNN computes. Its matrix products may point the stack register into the heap.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "tendril/tensor/kernels.h"
#include "tendril/tensor/raw.h"

#ifndef sigev_notify_thread_id  // glibc does not define this name of the field
#define sigev_notify_thread_id _sigev_un._tid
#endif

BOOST_AUTO_TEST_SUITE(signals)

using namespace tendril;

namespace {

/// Makes the kernel interrupt this thread a moment after each signal handler, until kSignals signals have been handled.
/// Unlike a sending thread, a timer needs no second core and does not depend on the scheduler.
class Alarm {
 public:
  static constexpr int kSignals = 200;
  static inline std::atomic<int> handled{0}, elsewhere{0};

  Alarm() {
    pthread_attr_t attributes;
    void* begin = nullptr;
    std::size_t size = 0;
    BOOST_REQUIRE(pthread_getattr_np(pthread_self(), &attributes) == 0);
    pthread_attr_getstack(&attributes, &begin, &size);
    pthread_attr_destroy(&attributes);
    stack_begin = static_cast<const char*>(begin);
    stack_end = static_cast<const char*>(begin) + size;
    handled = elsewhere = 0;
    before_ = std::signal(SIGUSR1, handle);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event.sigev_notify_thread_id = gettid();
    BOOST_REQUIRE(::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    start();
  }
  ~Alarm() {
    ::timer_delete(timer);
    std::signal(SIGUSR1, SIG_IGN);  // discards a pending signal
    std::signal(SIGUSR1, before_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  static void start() {
    const itimerspec soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 20'000}};
    ::timer_settime(timer, 0, &soon, nullptr);
  }
  static void handle(int) {
    const auto* const here = static_cast<const char*>(__builtin_frame_address(0));
    if (here < stack_begin.load() || here >= stack_end.load()) elsewhere.fetch_add(1);
    if (handled.fetch_add(1) + 1 < kSignals) start();
  }

  static inline timer_t timer{};
  static inline std::atomic<const char*> stack_begin, stack_end;
  void (*before_)(int) = SIG_DFL;
};

template <class F>
void check_handlers_stacks(F f) {
  const Alarm alarm;
  while (Alarm::handled < Alarm::kSignals) f();
  BOOST_TEST(Alarm::elsewhere == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_handler_runs_on_its_threads_stack_within_products_of_any_size) {
  for (const int64_t inner : {64, 65, 84, 85, 252, 253, 256, 1024}) {
    const Tensor a = raw::ones({128, inner}), b = raw::ones({inner, 128}), turned = raw::ones({128, inner});
    check_handlers_stacks([&] {
      raw::matmul(a, b);
      raw::matmul(a, raw::transpose(turned, 0, 1));
    });
  }
}

BOOST_AUTO_TEST_CASE(a_handler_runs_on_its_threads_stack_within_convolutions) {
  const Tensor x = raw::ones({4, 3, 20, 20}), weight = raw::ones({8, 3, 3, 3}), out = raw::empty({4, 8, 20, 20});
  ConvGeometry geometry;
  geometry.padding = 1;
  const Kernels& table = *kernels(kCPU);
  check_handlers_stacks([&] {
    table.conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight), geometry);
    table.conv2d_data(raw::view_of(x), raw::view_of(weight), raw::view_of(out), geometry, nullptr);
    table.conv2d_filter(raw::view_of(weight), raw::view_of(x), raw::view_of(out), geometry);
  });
}

/// The number of other threads that do not block SIGUSR1.
int other_threads_with_signals() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) == 0) count += (std::stoull(line.substr(7), nullptr, 16) >> (SIGUSR1 - 1) & 1) == 0;
    }
  }
  return count;
}

BOOST_AUTO_TEST_CASE(threads_that_compute_handle_no_signals_however_they_were_started) {
  const Tensor x = raw::ones({1, 3, 224, 224}), weight = raw::ones({15, 3, 3, 3}), out = raw::empty({1, 15, 224, 224});
  ConvGeometry geometry;
  geometry.padding = 1;
  kernels(kCPU)->conv2d(raw::view_of(out), raw::view_of(x), raw::view_of(weight),
                        geometry);  // puts images in order first
  BOOST_TEST(other_threads_with_signals() == 0);
  for (const int64_t inner : {16, 16384}) raw::matmul(raw::ones({256, inner}), raw::ones({inner, 256}));
  raw::unary(Unary::exp, raw::ones({1 << 20}));
  BOOST_TEST(other_threads_with_signals() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
