// Memory and streams that are let go while a device still has work with them.
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};
constexpr int64_t kNumbers = 50'000;

std::vector<float> all(float value) { return std::vector<float>(kNumbers, value); }

}  // namespace

BOOST_AUTO_TEST_SUITE(lifetimes)

BOOST_AUTO_TEST_CASE(copies_ahead_are_there_when_their_batch_is_computed_with) {
  cuda::CopyAhead ahead;
  BOOST_CHECK_EXCEPTION(ahead.pop(), Error,
                        [](const Error& e) { return std::string(e.what()) == "CopyAhead::pop: nothing was pushed"; });
  BOOST_CHECK_EXCEPTION(ahead.push({raw::zeros({2}), Tensor()}), Error, [](const Error& e) {
    return std::string(e.what()) == "CopyAhead::push: tensor 1 is undefined";
  });
  BOOST_CHECK_EXCEPTION(ahead.push({raw::zeros({2}), raw::zeros({2}, kFloat32, kGPU)}), Error, [](const Error& e) {
    return std::string(e.what()) == "CopyAhead::push: tensor 1 is on cuda:0, expected the cpu";
  });
  BOOST_TEST(ahead.size() == 0U);
  const Tensor sum = raw::zeros({kNumbers}, kFloat32, kGPU);
  const auto compute = [&] {
    const std::vector<Tensor> batch = ahead.pop();
    raw::binary_(Binary::add, sum, batch[0]);
    raw::binary_(Binary::mul, sum, batch[1]);
  };
  float want = 0;
  for (int i = 1; i <= 12; ++i) {
    {
      const Tensor numbers = i % 3 == 0 ? raw::empty({kNumbers}) : cuda::pinned_empty({kNumbers});
      const Tensor factor = cuda::pinned_empty({1});
      raw::fill_(numbers, i);
      raw::fill_(factor, i % 2 == 0 ? 2 : 1);
      ahead.push({numbers, factor});
    }  // the next batch may be written where this one was, once it is copied
    want = (want + static_cast<float>(i)) * (i % 2 == 0 ? 2.0F : 1.0F);
    if (ahead.size() == 2) compute();
  }
  compute();
  BOOST_TEST(ahead.size() == 0U);
  BOOST_TEST(sum.to_vector<float>() == all(want));
}

BOOST_AUTO_TEST_CASE(a_pinned_block_is_not_reused_under_a_copy_that_another_stream_has_yet_to_make) {
  const cuda::Stream side;
  const Tensor there = raw::empty({kNumbers}, kFloat32, kGPU), also_there = raw::empty({kNumbers}, kFloat32, kGPU);
  cuda::Stream::current().synchronize();
  {
    const Tensor pinned = cuda::pinned_empty({kNumbers});
    raw::fill_(pinned, 7);
    const cuda::StreamGuard guard(side);
    raw::copy_(there, pinned, true);
  }  // dropped where the default stream is the current one
  for (int i = 0; i < 3; ++i) raw::fill_(cuda::pinned_empty({kNumbers}), -1);
  side.synchronize();
  BOOST_TEST(there.to_vector<float>() == all(7));

  // The same by the number of bytes, with an address within the block.
  {
    cuda::PinnedBuffer buffer(kNumbers * sizeof(float) + 64);
    auto* const numbers = reinterpret_cast<float*>(buffer.data() + 64);
    for (int64_t i = 0; i < kNumbers; ++i) numbers[i] = 8;
    const cuda::StreamGuard guard(side);
    cuda::copy_async(also_there.raw_data(), kGPU, numbers, kCPU, kNumbers * sizeof(float));
  }
  for (int i = 0; i < 3; ++i) {
    const cuda::PinnedBuffer again(kNumbers * sizeof(float) + 64);
    std::fill_n(again.data(), again.bytes(), std::byte{0});
  }
  side.synchronize();
  BOOST_TEST(also_there.to_vector<float>() == all(8));
}

BOOST_AUTO_TEST_CASE(a_pinned_block_that_two_streams_copy_from_waits_for_both) {
  const cuda::Stream slow, quick;
  const Tensor first = raw::empty({kNumbers}, kFloat32, kGPU), second = raw::empty({kNumbers}, kFloat32, kGPU);
  cuda::Stream::current().synchronize();
  {
    const Tensor pinned = cuda::pinned_empty({kNumbers});
    raw::fill_(pinned, 7);
    for (const auto& [stream, target] : {std::pair{slow, first}, std::pair{quick, second}}) {
      const cuda::StreamGuard guard(stream);
      raw::copy_(target, pinned, true);
    }
  }
  quick.synchronize();
  for (int i = 0; i < 3; ++i) raw::fill_(cuda::pinned_empty({kNumbers}), -1);
  slow.synchronize();
  BOOST_TEST(first.to_vector<float>() == all(7));
  BOOST_TEST(second.to_vector<float>() == all(7));
}

BOOST_AUTO_TEST_CASE(ordinary_memory_is_read_before_a_copy_from_it_returns) {
  std::vector<float> numbers = all(7);
  const Tensor target = raw::empty({kNumbers}, kFloat32, kGPU), also = raw::empty({kNumbers}, kFloat32, kGPU);
  const cuda::Stream side;
  cuda::Stream::current().synchronize();
  {
    const cuda::StreamGuard guard(side);
    cuda::copy_async(target.raw_data(), kGPU, numbers.data(), kCPU, kNumbers * sizeof(float));
    numbers = all(-1);
    const Tensor here = raw::full({kNumbers}, 8);
    raw::copy_(also, here, true);
    raw::fill_(here, -1);
  }
  side.synchronize();
  BOOST_TEST(target.to_vector<float>() == all(7));
  BOOST_TEST(also.to_vector<float>() == all(8));
}

BOOST_AUTO_TEST_CASE(what_a_dropped_stream_still_has_to_do_does_not_meet_the_next_stream) {
  const Tensor result = raw::empty({kNumbers}, kFloat32, kGPU);
  cuda::Stream::current().synchronize();
  std::optional<cuda::Stream> former(std::in_place);
  {
    const cuda::StreamGuard guard(*former);
    const Tensor x = raw::full({kNumbers}, 1, kFloat32, kGPU);
    raw::copy_(result, x);
  }
  former.reset();  // x's block is free again for whoever uses its stream
  const cuda::Stream next;
  Tensor y;
  {
    const cuda::StreamGuard guard(next);
    y = raw::full({kNumbers}, 2, kFloat32, kGPU);
  }
  next.synchronize();
  cuda::synchronize();
  BOOST_TEST(result.to_vector<float>() == all(1));
  BOOST_TEST(y.to_vector<float>() == all(2));
}

BOOST_AUTO_TEST_CASE(a_tensor_may_outlive_the_streams_that_made_and_used_it) {
  Tensor x;
  {
    const cuda::Stream maker, user;
    {
      const cuda::StreamGuard guard(maker);
      x = raw::full({kNumbers}, 1, kFloat32, kGPU);
    }
    maker.synchronize();
    const cuda::StreamGuard guard(user);
    const Tensor y = x + 1;
    cuda::record_stream(x, user);
  }
  BOOST_TEST(x.to_vector<float>() == all(1));
  x = {};  // asks `user` how far it is
  cuda::synchronize();
  cuda::empty_cache();
  const cuda::Stream other;
  BOOST_TEST(other.done());
}

BOOST_AUTO_TEST_SUITE_END()
