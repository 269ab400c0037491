// Kernels that need memory for themselves say so in the library's words where there is none.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <string>

#include "tendril/tensor/cpu/onednn.h"
#include "tendril/tensor/kernels.h"
#include "tendril/tensor/memory.h"
#include "tendril/tensor/raw.h"
#include "tendril/tensor/threads.h"
#include "tests/errors.h"
#include "tests/skip.h"
#include "tests/tensor/little_room.h"

#ifdef TENDRIL_LITTLE_ROOM

BOOST_AUTO_TEST_SUITE(out_of_memory)

using namespace tendril;
using raw::view_of;

namespace {

/// That `kernel` throws an Error with these words when `room` more bytes can be had.
template <class... Words>
bool says_so(std::size_t room, const std::function<void()>& kernel, const Words&... words) {
  return testing::holds_with_little_room(room, [&](auto limit) {
    const ThreadLimit alone(1);
    memory::trim();
    limit();
    for (std::size_t size = std::size_t{1} << 26; room == 0 && size >= 1 << 15;) {  // and what the heap still has
      void* volatile const taken = std::malloc(size);
      if (!taken) size /= 2;
    }
    try {
      kernel();
    } catch (const Error& error) {
      return testing::says("out of memory", "bytes are in use", words...)(error);
    }
    return false;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(reductions) {
  // Rows of 512 in pieces of two, each of which has sums of its own.
  const Tensor pieces = raw::as_strided(raw::empty({1025 << 14}), {1 << 14, 2, 512}, {1025, 512, 1}, 0);
  const Tensor sums = raw::empty({1, 1, 512}), sum = raw::empty({1});
  const Tensor all = raw::expand(raw::zeros({1}), {int64_t{1} << 40});  // one element, again and again
  BOOST_TEST(says_so(8 << 20, [&] { kernels(kCPU)->reduce(Reduction::sum, view_of(sums), view_of(pieces)); }));
  BOOST_TEST(says_so(8 << 20, [&] { kernels(kCPU)->reduce(Reduction::sum, view_of(sum), view_of(all)); }));
}

BOOST_AUTO_TEST_CASE(layer_norm) {
  const Tensor x = raw::empty({64, 1 << 18}), mean = raw::empty({64}), rstd = raw::empty({64}),
               sums = raw::empty({1 << 18});
  const View to = view_of(sums), means = view_of(mean);
  BOOST_TEST(says_so(8 << 20, [&] {
    kernels(kCPU)->layer_norm_backward(nullptr, &to, nullptr, view_of(x), view_of(x), &means, view_of(rstd), nullptr);
  }));
}

BOOST_AUTO_TEST_CASE(what_onednn_packs) {
  if (!cpu::onednn::available()) return;
  // oneDNN's code is made first: 2.6 fails with a signal where there is no memory for that.
  (void)raw::matmul(raw::zeros({50, 50}), raw::zeros({50, 50}));
  const Tensor a = raw::zeros({3000, 3000}), out = raw::empty({3000, 3000});
  BOOST_TEST(says_so(
      0, [&] { kernels(kCPU)->matmul(view_of(out), view_of(a), view_of(a)); }, "oneDNN needs for matmul"));
}

BOOST_AUTO_TEST_SUITE_END()

#else

BOOST_AUTO_TEST_SUITE(out_of_memory)

BOOST_AUTO_TEST_CASE(not_here) { tendril::testing::skip_suite("a sanitizer needs the address space for itself"); }

BOOST_AUTO_TEST_SUITE_END()

#endif
