#pragma once

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/nn/data_parallel.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tests/dist/collectives/members.h"
#include "tests/seed.h"

namespace dist_test {

/// Checks that three steps of data-parallel training on each member's x [n, 4] give the same weights with both groups.
inline void check_trains_alike(ProcessGroup& one_group, ProcessGroup& other_group, const Tensor& x) {
  Generator one(testing::test_seed()), other(testing::test_seed());
  nn::Linear a(4, 2, {.device = x.device(), .generator = one}), b(4, 2, {.device = x.device(), .generator = other});
  dist::DistributedDataParallel first(a, one_group), second(b, other_group);
  optim::SGD sgd_a(a.parameters(), {.lr = 0.1}), sgd_b(b.parameters(), {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    sgd_a.zero_grad();
    sgd_b.zero_grad();
    first.backward(a(x).square().mean());
    second.backward(b(x).square().mean());
    sgd_a.step();
    sgd_b.step();
  }
  check(allclose(a.weight, b.weight, 1e-5, 1e-6));
}

}  // namespace dist_test
