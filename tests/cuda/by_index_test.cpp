#include <boost/test/unit_test.hpp>

#include "tendril/autograd/ops/embedding.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/nn/distributions/categorical.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/drivers/by_index.h"
#include "tests/cuda/laid_out.h"
#include "tests/errors.h"
#include "tests/seed.h"

using namespace tendril;
using namespace tendril::testing;

namespace {

const std::vector<DType> kAll = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUInt8, kBool};

/// In [0, size), with repetitions.
Tensor indices(const Dims& sizes, int64_t size, int64_t seed = 1) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < numel_of(sizes); ++i) all.push_back((i * 31 + seed * 7 + i * i) % size);
  return raw::from_data(all, sizes);
}

/// Puts the process-wide choices back.
struct Checked {
  Checked() { cuda::set_checked(true); }
  ~Checked() { cuda::set_checked(false); }
};
struct Deterministic {
  Deterministic() { cuda::set_deterministic(true); }
  ~Deterministic() { cuda::set_deterministic(false); }
};

Tensor there(const Tensor& x) { return raw::to(x, kCuda); }

void check_gather(const Laid& x, int d, const Tensor& index) {
  for (const Laid& i : laid_out(index)) {
    BOOST_TEST_CONTEXT(x.name << " " << x.base.dtype() << " by an index " << i.name << " along " << d) {
      check_close(x.on(kCuda).gather(d, i.on(kCuda)), x.on(kCPU).gather(d, i.on(kCPU)), 0, 0);
    }
  }
}

void check_scatter(const Laid& source, const Tensor& onto, int d, const Tensor& index, double rtol) {
  for (const Laid& to : laid_out(onto)) {
    BOOST_TEST_CONTEXT("from " << source.name << " into " << to.name << " " << onto.dtype() << " along " << d) {
      const Tensor expected = to.window(raw::clone(to.base)), found = to.window(there(raw::clone(to.base)));
      drivers::scatter_add_(expected, d, index, source.on(kCPU));
      drivers::scatter_add_(found, d, there(index), source.on(kCuda));
      check_close(raw::contiguous(found), expected, rtol, rtol);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(by_index)

BOOST_AUTO_TEST_CASE(gather_reads_every_dtype_in_every_layout) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{5, 7}, Dims{3, 4, 6}, Dims{9}}) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        for (int d = 0; d < sizes.size(); ++d) {
          Dims chosen = sizes;
          chosen[d] = 11;
          check_gather(x, d, indices(chosen, sizes[d]));
          chosen[0] = std::min<int64_t>(chosen[0], 2);  // a corner
          check_gather(x, d, indices(chosen, sizes[d], 3));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(index_select_reads_slices_of_every_width) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{6, 16}, Dims{6, 5}, Dims{3, 4, 32}, Dims{7, 1}, Dims{9}}) {
      for (const Laid& x : laid_out(numbers(sizes, dtype))) {
        for (int d = 0; d < sizes.size(); ++d) {
          for (const Laid& i : laid_out(indices({13}, sizes[d]))) {
            BOOST_TEST_CONTEXT(x.name << " " << dtype << sizes << " by an index " << i.name << " along " << d) {
              check_close(x.on(kCuda).index_select(d, i.on(kCuda)), x.on(kCPU).index_select(d, i.on(kCPU)), 0, 0);
            }
          }
        }
      }
    }
  }
  const Tensor none = there(numbers({3, 4})).index_select(0, raw::empty({0}, kInt64, kCuda));
  BOOST_TEST(none.sizes() == (Dims{0, 4}));
}

BOOST_AUTO_TEST_CASE(scatter_add_and_index_add_add_what_meets_in_one_place) {
  for (const DType dtype : kAll) {
    if (dtype == kBool) continue;
    for (const Dims& sizes : {Dims{5, 7}, Dims{3, 4, 6}, Dims{9}}) {
      for (int d = 0; d < sizes.size(); ++d) {
        Dims onto = sizes;
        onto[d] = 4;
        for (const Laid& source : laid_out(numbers(sizes, dtype, 5))) {
          check_scatter(source, numbers(onto, dtype), d, indices(sizes, 4), 8 * tolerance(dtype));
          const Tensor along = indices({sizes[d]}, 4), expected = numbers(onto, dtype), found = there(expected);
          const Tensor mine = raw::clone(expected);
          drivers::index_add_(mine, d, along, source.on(kCPU));
          drivers::index_add_(found, d, there(along), source.on(kCuda));
          check_close(found, mine, 8 * tolerance(dtype), 8 * tolerance(dtype));
        }
      }
    }
  }
  const Tensor bits = raw::zeros({2}, kBool, kCuda);
  BOOST_CHECK_THROW(drivers::index_add_(bits, 0, raw::zeros({1}, kInt64, kCuda), raw::zeros({1}, kBool, kCuda)),
                    DTypeError);
}

BOOST_AUTO_TEST_CASE(scatter_writes_every_dtype_in_every_layout) {
  for (const DType dtype : kAll) {
    for (const Dims& sizes : {Dims{5, 7}, Dims{3, 4, 6}, Dims{9}}) {
      for (int d = 0; d < sizes.size(); ++d) {
        Dims onto = sizes, line = Dims::filled(sizes.size(), 1);
        onto[d] = 2 * sizes[d];
        line[d] = sizes[d];
        // Each place once: which of several values is kept, nobody promises.
        const Tensor index = raw::expand(raw::reshape(raw::arange(0, 2 * sizes[d], 2), line), sizes);
        for (const Laid& source : laid_out(numbers(sizes, dtype, 5))) {
          for (const Laid& to : laid_out(numbers(onto, dtype))) {
            BOOST_TEST_CONTEXT("from " << source.name << " into " << to.name << " " << dtype << " along " << d) {
              check_close(to.on(kCuda).scatter(d, there(index), source.on(kCuda)),
                          to.on(kCPU).scatter(d, index, source.on(kCPU)), 0, 0);
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(in_deterministic_mode_sums_have_the_bits_of_the_cpu) {
  const Deterministic mode;
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kInt32}) {
    for (const int64_t width : {1, 3, 70}) {
      const Tensor source = numbers({90, width}, dtype), index = indices({90}, 7), full = indices({90, width}, 7);
      const Tensor expected = numbers({7, width}, dtype), found = there(expected), onto = raw::clone(expected);
      drivers::index_add_(onto, 0, index, source);
      drivers::index_add_(found, 0, there(index), there(source));
      BOOST_TEST(raw::equal(raw::to(found, kCPU), onto));
      drivers::scatter_add_(onto, 0, full, source);
      drivers::scatter_add_(found, 0, there(full), there(source));
      BOOST_TEST(raw::equal(raw::to(found, kCPU), onto));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_thrown_at_the_next_wait_and_changes_nothing) {
  const Tensor x = there(numbers({3, 4})), bad = there(raw::from_data(std::vector<int64_t>{0, 5, 1}, {3}));
  const auto waiting = [](const std::string& op) {
    BOOST_CHECK_EXCEPTION(cuda::synchronize(), IndexError,
                          says(op, "index 5 is out of range for dimension 0 of size 3", "cuda:0"));
    BOOST_CHECK_NO_THROW(cuda::synchronize());  // it is said once
  };
  const Tensor chosen = x.index_select(0, bad);
  waiting("index_select");
  const auto rows = chosen.to_vector<float>();
  for (std::size_t i = 4; i < 8; ++i) BOOST_TEST(rows[i] == 0);  // and the others are right
  BOOST_TEST(rows[8] == numbers({3, 4}).to_vector<float>()[4]);

  const Tensor full = raw::to(raw::from_data(std::vector<int64_t>{0, 5, 1, 2}, {1, 4}), kCuda);
  BOOST_TEST(x.gather(0, full).impl() != nullptr);
  waiting("gather");
  for (const bool ordered : {false, true}) {
    cuda::set_deterministic(ordered);
    const Tensor sums = raw::to(raw::zeros({3, 4}), kCuda);
    drivers::index_add_(sums, 0, bad, there(raw::ones({3, 4})));
    waiting("index_add");
    BOOST_TEST(sums.to_vector<float>() == (std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}),
               boost::test_tools::per_element());
    drivers::scatter_add_(sums, 0, full, there(raw::ones({1, 4})));
    waiting("scatter_add");
    BOOST_TEST(sums.to_vector<float>() == (std::vector<float>{2, 1, 1, 1, 1, 1, 2, 1, 0, 0, 0, 1}),
               boost::test_tools::per_element());
  }
  cuda::set_deterministic(false);

  // Reading a value is a wait, too.
  const Tensor again = x.index_select(0, bad);
  BOOST_CHECK_THROW(again.to_vector<float>(), IndexError);
  // Nothing to read, but the index is wrong all the same.
  raw::empty({3, 0}, kFloat32, kCuda).index_select(0, bad);
  waiting("index_select");
  const Tensor negative = there(raw::full({1}, -1, kInt64));
  x.index_select(0, negative);
  BOOST_CHECK_EXCEPTION(cuda::synchronize(), IndexError, says("index -1 is out of range"));
}

BOOST_AUTO_TEST_CASE(what_lies_beyond_a_tensor_is_not_written_to) {
  const Tensor bad = there(raw::from_data(std::vector<int64_t>{0, 5, -1}, {3})), ones = there(raw::ones({3, 4}));
  const Tensor beyond = there(raw::full({1, 4}, 5, kInt64));
  for (const bool ordered : {false, true}) {
    cuda::set_deterministic(ordered);
    const Tensor whole = there(raw::zeros({8, 4})), inner = raw::narrow(whole, 0, 1, 5);
    drivers::index_add_(inner, 0, bad, ones);
    drivers::scatter_add_(inner, 0, beyond, raw::narrow(ones, 0, 0, 1));
    BOOST_CHECK_THROW(cuda::synchronize(), IndexError);
    const auto rows = whole.sum({1}).to_vector<float>();
    BOOST_TEST(rows == (std::vector<float>{0, 4, 0, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
  }
  cuda::set_deterministic(false);
}

BOOST_AUTO_TEST_CASE(each_device_and_every_stream_has_its_own_say) {
  const Tensor bad = raw::full({1}, 4, kInt64);
  const cuda::Stream aside;
  {
    const cuda::StreamGuard guard(aside);
    there(numbers({3, 4})).index_select(0, there(bad));
  }
  BOOST_CHECK_EXCEPTION(aside.synchronize(), IndexError, says("index_select: index 4", "cuda:0"));
  if (device_count(DeviceType::cuda) < 2) return;
  const Device second{DeviceType::cuda, 1};
  raw::to(numbers({3, 4}), second).index_select(0, raw::to(bad, second));
  BOOST_CHECK_NO_THROW(cuda::synchronize(0));
  BOOST_CHECK_EXCEPTION(cuda::synchronize(1), IndexError, says("index_select: index 4", "cuda:1"));
}

BOOST_AUTO_TEST_CASE(of_many_wrong_indices_one_is_named) {
  there(numbers({3, 4})).index_select(0, there(raw::full({1000}, 9, kInt64)));
  BOOST_CHECK_EXCEPTION(cuda::synchronize(), IndexError, says("index 9 is out of range for dimension 0 of size 3"));
  BOOST_CHECK_NO_THROW(cuda::synchronize());
}

BOOST_AUTO_TEST_CASE(in_checked_mode_it_is_thrown_at_once_in_the_words_of_the_cpu) {
  const Checked mode;
  const Tensor index = raw::from_data(std::vector<int64_t>{0, 3}, {2});
  const auto message = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  for (const Device device : {kCPU, kCuda}) {
    const Tensor x = raw::to(raw::zeros({3, 2}), device), i = raw::to(index, device);
    BOOST_TEST(message([&] { x.index_select(0, i); }) ==
               "index_select: index 3 is out of range for dimension 0 of size 3");
    BOOST_TEST(message([&] {
                 drivers::index_add_(x, 0, i, raw::to(raw::ones({2, 2}), device));
               }) == "index_add: index 3 is out of range for dimension 0 of size 3");
    BOOST_TEST(message([&] {
                 x.gather(1, raw::view(i, {1, 2}));
               }) == "gather: index 3 is out of range for dimension 1 of size 2");
    BOOST_TEST(message([&] { embedding(i, x); }) == "embedding: index 3 is out of range for a weight of 3 rows");
    for (const float value : x.to_vector<float>()) BOOST_TEST(value == 0);
  }
}

BOOST_AUTO_TEST_CASE(embedding_and_its_gradient_are_those_of_the_cpu) {
  const Tensor index = indices({4, 5}, 6);
  Tensor gradients[2], values[2];
  for (const Device device : {kCPU, kCuda}) {
    Tensor weight = raw::to(numbers({6, 8}), device);
    weight.requires_grad_(true);
    const Tensor out = embedding(raw::to(index, device), weight, 2);
    out.backward(raw::to(numbers({4, 5, 8}, kFloat32, 3), device));
    values[device.is_cpu()] = out.detach();
    gradients[device.is_cpu()] = weight.grad();
  }
  check_close(values[0], values[1], 0, 0);
  check_close(gradients[0], gradients[1], 1e-6, 1e-6);
}

BOOST_AUTO_TEST_CASE(losses_by_class_and_their_gradients_are_those_of_the_cpu) {
  const Tensor scores = numbers({6, 5}), weights = raw::from_data(std::vector<float>{1, 0.5F, 2, 0.25F, 3}, {5});
  for (const std::vector<int64_t>& labels :
       {std::vector<int64_t>{0, 1, 2, 3, 4, 0}, {-100, 1, 2, -100, 4, 0}, std::vector<int64_t>(6, -100)}) {
    for (const auto reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
      for (const bool weighted : {false, true}) {
        for (const double smoothing : {0.0, 0.2}) {
          Tensor losses[2], gradients[2];
          for (const Device device : {kCPU, kCuda}) {
            Tensor x = raw::to(raw::clone(scores), device);
            x.requires_grad_(true);
            const Tensor loss = cross_entropy(x, raw::to(raw::from_data(labels, {6}), device),
                                              {.weight = weighted ? raw::to(weights, device) : Tensor(),
                                               .reduction = reduction,
                                               .label_smoothing = smoothing});
            loss.sum().backward();
            losses[device.is_cpu()] = loss.detach();
            gradients[device.is_cpu()] = x.grad();
          }
          BOOST_TEST_CONTEXT("reduction " << static_cast<int>(reduction) << ", weighted " << weighted << ", smoothing "
                                          << smoothing << ", first label " << labels[0] << ", second " << labels[1]) {
            check_close(losses[0], losses[1], 1e-5, 1e-6);
            check_close(gradients[0], gradients[1], 1e-5, 1e-6);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_label_out_of_range_is_named_by_the_loss) {
  const Tensor scores = raw::zeros({2, 3}, kFloat32, kCuda);
  const Tensor labels = there(raw::from_data(std::vector<int64_t>{0, 3}, {2}));
  const Tensor loss = cross_entropy(scores, labels);
  BOOST_CHECK_EXCEPTION(loss.item<float>(), IndexError, says("cross_entropy: target 3 is out of range for 3 classes"));
  nll_loss(scores, labels);
  BOOST_CHECK_EXCEPTION(cuda::synchronize(), IndexError, says("nll_loss: target 3 is out of range for 3 classes"));
  BOOST_CHECK_NO_THROW(cuda::synchronize());
}

BOOST_AUTO_TEST_CASE(categories_are_drawn_and_weighed_as_on_the_cpu) {
  const Tensor logits = numbers({4, 3});
  const distributions::Categorical here({.logits = logits}), there_({.logits = there(logits)});
  Generator one(test_seed()), other(test_seed());
  const Tensor drawn = here.sample(one, {5}), also = there_.sample(other, {5});
  BOOST_TEST((also.device() == kCuda));
  BOOST_TEST(raw::equal(raw::to(also, kCPU), drawn));
  check_close(there_.log_prob(also), here.log_prob(drawn), 1e-5, 1e-6);
  BOOST_CHECK_THROW(there_.log_prob(drawn), Error);
}

BOOST_AUTO_TEST_SUITE_END()
