// What the CPU can do, CUDA can.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstring>
#include <vector>

#include "tendril/tensor/kernels.h"
#include "tests/cuda/compare.h"

using namespace tendril;

namespace {

/// The table's entries, in order: nothing but pointers to functions follows the first.
std::vector<bool> filled(const Kernels& table) {
  constexpr std::size_t first = offsetof(Kernels, unary);
  static_assert((sizeof(Kernels) - first) % sizeof(void (*)()) == 0);
  std::vector<bool> slots;
  for (std::size_t at = first; at < sizeof(Kernels); at += sizeof(void (*)())) {
    void (*function)() = nullptr;
    std::memcpy(&function, reinterpret_cast<const char*>(&table) + at, sizeof function);
    slots.push_back(function != nullptr);
  }
  return slots;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(every_slot_that_the_cpu_fills_is_filled) {
  const std::vector<bool> here = filled(*kernels(kCPU)), there = filled(*kernels(testing::kGPU));
  BOOST_REQUIRE(here.size() > 35);
  // What is made of other operations there (conv.cpp, attention.cpp, lstm.cpp), or goes another way (loss.cpp).
  Kernels elsewhere;
  elsewhere.log_sum_exp = kernels(kCPU)->log_sum_exp;
  elsewhere.conv2d_relu = kernels(kCPU)->conv2d_relu;
  elsewhere.attention = kernels(kCPU)->attention;
  elsewhere.attention_backward = kernels(kCPU)->attention_backward;
  elsewhere.lstm_steps = kernels(kCPU)->lstm_steps;
  elsewhere.lstm_steps_backward = kernels(kCPU)->lstm_steps_backward;
  const std::vector<bool> without = filled(elsewhere);
  for (std::size_t slot = 0; slot < here.size(); ++slot) {
    if (slot < without.size() && without[slot]) continue;
    BOOST_TEST((!here[slot] || there[slot]), "slot " << slot << " of tensor/kernels.h is null");
  }
}

BOOST_AUTO_TEST_CASE(a_null_slot_is_named_with_its_device) {
  Kernels none = *kernels(testing::kGPU);
  none.softmax = nullptr;
  BOOST_CHECK_EXCEPTION(require(none.softmax, "softmax", none), Error,
                        [](const Error& error) { return std::string(error.what()) == "softmax: no cuda kernel"; });
}

BOOST_AUTO_TEST_SUITE_END()
