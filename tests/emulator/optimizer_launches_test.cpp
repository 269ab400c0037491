// What an optimizer's step asks of a device, as only the emulator can count it.
#include <boost/test/unit_test.hpp>
#include <vector>

#include "cuda_emulator/emulator.h"
#include "tendril/nn/optim/adam.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

constexpr Device kThere{DeviceType::cuda, 0};

std::vector<Tensor> parameters(int count) {
  std::vector<Tensor> params;
  for (int64_t i = 0; i < count; ++i) {
    params.push_back(raw::ones({1 + i % 5}, kFloat32, kThere).requires_grad_());
    params.back().set_grad(raw::ones({1 + i % 5}, kFloat32, kThere));
  }
  return params;
}

/// The second step, when state is there, launches `launches` kernels and asks for nothing else.
void check_step(optim::Optimizer& optimizer, uint64_t launches) {
  optimizer.step();
  cuda::synchronize();
  const auto memory = cuda::memory_stats();
  const cuda_emulator::Counters before = cuda_emulator::counters();
  optimizer.step();
  const cuda_emulator::Counters after = cuda_emulator::counters();
  BOOST_TEST(after.launches - before.launches == launches);
  BOOST_TEST(after.copies == before.copies);
  BOOST_TEST(after.fills == before.fills);
  BOOST_TEST(after.synchronisations == before.synchronisations);
  BOOST_TEST(cuda::memory_stats().allocations == memory.allocations);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer_launches)

BOOST_AUTO_TEST_CASE(a_step_over_many_parameters_is_a_few_launches_and_waits_for_nothing) {
  const std::vector<Tensor> params = parameters(155);
  optim::SGD sgd(params, {.lr = 0.1, .momentum = 0.9});
  check_step(sgd, 2);  // a hundred parameters a launch
  optim::Adam adam(params);
  check_step(adam, 3);  // sixty-nine
}

BOOST_AUTO_TEST_CASE(a_step_of_a_small_network_is_one_launch) {
  const std::vector<Tensor> params = parameters(6);
  optim::Adam adam(params, {.amsgrad = true});
  check_step(adam, 1);
}

BOOST_AUTO_TEST_SUITE_END()
