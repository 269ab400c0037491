// Streams, events, memory and copies.
#include "tendril/tensor/cuda/runtime.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <thread>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"
#include "tests/errors.h"

using namespace tendril;
using tendril::testing::says;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};
bool two_devices() { return device_count(DeviceType::cuda) > 1; }

std::vector<float> counted(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i) - 3.5F);
  return values;
}
Tensor on_gpu(const std::vector<float>& values) {
  return raw::to(raw::from_data(values, {static_cast<int64_t>(values.size())}), kGPU);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(runtime)

BOOST_AUTO_TEST_CASE(a_tensor_goes_to_the_device_and_comes_back) {
  const std::vector<float> values = counted(1000);
  const Tensor there = on_gpu(values);
  BOOST_TEST((there.device() == kGPU));
  BOOST_TEST(there.to_vector<float>() == values);
  BOOST_TEST(there.to(kCPU).device().is_cpu());
  BOOST_TEST(there.to(kGPU).is_same(there));
}

BOOST_AUTO_TEST_CASE(copies_between_devices_broadcast_and_convert_as_on_one) {
  const Tensor row = raw::from_data(std::vector<double>{1.25, 2.5, -3}, {3});
  const Tensor target = raw::empty({2, 3}, kFloat32, kGPU);
  raw::copy_(target, row);
  BOOST_TEST(target.to_vector<float>() == (std::vector<float>{1.25F, 2.5F, -3, 1.25F, 2.5F, -3}));
  const Tensor back = raw::empty({3, 2}, kInt64);
  raw::copy_(raw::transpose(back, 0, 1), target);
  BOOST_TEST(back.to_vector<int64_t>() == (std::vector<int64_t>{1, 1, 2, 2, -3, -3}));
}

BOOST_AUTO_TEST_CASE(a_view_is_copied_without_the_rest_of_its_storage) {
  const Tensor matrix = on_gpu(counted(12)).view({3, 4});
  BOOST_TEST(matrix.select(1, 2).to(kCPU).to_vector<float>() == (std::vector<float>{-1.5F, 2.5F, 6.5F}));
  BOOST_TEST(matrix.t().to(kCPU)[1].to_vector<float>() == (std::vector<float>{-2.5F, 1.5F, 5.5F}));
}

BOOST_AUTO_TEST_CASE(empty_tensors_live_on_devices_too) {
  const Tensor none = raw::empty({0, 3}, kFloat32, kGPU);
  BOOST_TEST(none.to(kCPU).numel() == 0);
  BOOST_TEST((none.device() == kGPU));
}

BOOST_AUTO_TEST_CASE(reading_one_value_waits_for_it) {
  const Tensor x = on_gpu({2});
  BOOST_TEST((x * 21).item<float>() == 42);
}

BOOST_AUTO_TEST_CASE(gradients_cross_devices_with_the_tensors) {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.dtype = kFloat64, .device = kCPU, .requires_grad = true});
  (x.to(kGPU) * 2).to(kCPU).backward(raw::from_data(std::vector<double>{1, 10, 100}, {3}));
  BOOST_TEST(x.grad().device().is_cpu());
  BOOST_TEST(x.grad().to_vector<double>() == (std::vector<double>{2, 20, 200}));
}

BOOST_AUTO_TEST_CASE(memory_is_counted_and_reused) {
  cuda::synchronize();
  const int64_t live = cuda::memory_stats().live_bytes;
  {
    const Tensor x = raw::empty({1000}, kFloat32, kGPU);
    BOOST_TEST(cuda::memory_stats().live_bytes == live + 4096);
  }
  BOOST_TEST(cuda::memory_stats().live_bytes == live);
  const int64_t calls = cuda::memory_stats().driver_calls;
  for (int i = 0; i < 100; ++i) raw::empty({1000}, kFloat32, kGPU);
  BOOST_TEST(cuda::memory_stats().driver_calls == calls);
  cuda::reset_peak_memory();
  { const Tensor x = raw::empty({1 << 20}, kFloat32, kGPU); }
  BOOST_TEST(cuda::memory_stats().peak_bytes >= live + (4 << 20));
}

BOOST_AUTO_TEST_CASE(running_out_of_memory_says_what_is_live_and_changes_nothing) {
  const Tensor kept = on_gpu(counted(100));
  const auto too_much = [] { raw::empty({int64_t{1} << 46}, kUInt8, kGPU); };
  BOOST_CHECK_EXCEPTION(too_much(), Error, says("out of memory: cannot allocate 70368744177664 bytes on cuda:0"));
  BOOST_CHECK_EXCEPTION(too_much(), Error, says("1 x 512 bytes"));
  BOOST_TEST(kept.to_vector<float>() == counted(100));
}

BOOST_AUTO_TEST_CASE(a_device_that_is_not_there_is_named) {
  const auto count = static_cast<int8_t>(device_count(DeviceType::cuda));
  const Device missing{DeviceType::cuda, count};
  const std::string expected = "cuda:" + std::to_string(count) + ": this process sees " + std::to_string(count);
  BOOST_CHECK_EXCEPTION(raw::empty({3}, kFloat32, missing), Error, says(expected));
  BOOST_CHECK_EXCEPTION(on_gpu({1}).to(missing), Error, says(expected));
  BOOST_CHECK_EXCEPTION(cuda::synchronize(count), Error, says(expected));
  BOOST_CHECK_EXCEPTION(cuda::Stream{-1}, Error, says("cuda:-1"));
}

BOOST_AUTO_TEST_CASE(work_on_another_stream_is_ordered_by_events) {
  const cuda::Stream side;
  const Tensor x = on_gpu(counted(5000));
  cuda::Event made, used;
  made.record();
  side.wait(made);
  Tensor y;
  {
    const cuda::StreamGuard guard(side);
    y = x * 2;
    cuda::record_stream(x, side);
    used.record(side);
  }
  cuda::Stream::default_of().wait(used);
  cuda::record_stream(y, cuda::Stream::default_of());
  const std::vector<float> got = (y + x).to_vector<float>(), values = counted(5000);
  for (std::size_t i = 0; i < got.size(); i += 499) BOOST_TEST(got[i] == 3 * values[i]);
}

BOOST_AUTO_TEST_CASE(memory_that_another_stream_still_reads_is_not_handed_out) {
  const cuda::Stream side;
  const std::vector<float> values = counted(30000);
  cuda::Event made, done;
  Tensor copy;
  {
    const Tensor x = on_gpu(values);
    made.record();
    side.wait(made);
    const cuda::StreamGuard guard(side);
    copy = raw::clone(x);
    cuda::record_stream(x, side);
  }
  // On the default stream, which does not wait for `side`: were x's block handed out, this would overwrite it.
  const Tensor next = raw::full({30000}, -1, kFloat32, kGPU);
  cuda::Stream::default_of().synchronize();
  side.synchronize();
  BOOST_TEST(copy.to_vector<float>() == values, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_guard_holds_for_its_thread_and_its_scope) {
  const cuda::Stream side;
  {
    const cuda::StreamGuard guard(side);
    BOOST_TEST((cuda::Stream::current().native() == side.native()));
    bool inherited = true;
    std::thread([&] { inherited = cuda::Stream::current().native() == side.native(); }).join();
    BOOST_TEST(!inherited);
  }
  BOOST_TEST((cuda::Stream::current().native() == cuda::Stream::default_of().native()));
}

BOOST_AUTO_TEST_CASE(work_goes_to_the_default_streams_for_a_scope_in_order_with_the_threads_own) {
  const cuda::Stream side;
  const std::vector<float> values = counted(30000);
  const Tensor source = on_gpu(values);
  cuda::Event made;
  made.record();
  side.wait(made);
  const cuda::StreamGuard guard(side);
  const Tensor x = source * 2;
  Tensor y;
  {
    const cuda::DefaultStreams in_order;
    BOOST_TEST((cuda::Stream::current().native() == cuda::Stream::default_of().native()));
    y = x + 1;
  }
  BOOST_TEST((cuda::Stream::current().native() == side.native()));
  const std::vector<float> got = (y + x).to_vector<float>();
  for (std::size_t i = 0; i < got.size(); i += 499) BOOST_TEST(got[i] == 4 * values[i] + 1);
}

BOOST_AUTO_TEST_CASE(events_say_when_and_how_long) {
  cuda::Event never, start(true), end(true);
  BOOST_TEST(never.done());
  start.record();
  const Tensor x = on_gpu(counted(100)) + 1;
  end.record();
  end.synchronize();
  BOOST_TEST(end.done());
  BOOST_TEST(end.milliseconds_since(start) >= 0);
  cuda::Event untimed;
  untimed.record();
  BOOST_CHECK_EXCEPTION(untimed.milliseconds_since(start), Error, says("made with timing"));
}

BOOST_AUTO_TEST_CASE(copies_from_and_to_pinned_memory_need_not_be_waited_for) {
  const std::vector<float> values = counted(4000);
  const Tensor pinned = cuda::pinned_empty({4000});
  raw::copy_(pinned, raw::from_data(values, {4000}));
  const Tensor there = pinned.to(kGPU, true), doubled = there * 2, back = cuda::pinned_empty({4000});
  raw::copy_(back, doubled, true);
  cuda::synchronize();
  for (std::size_t i = 0; i < values.size(); i += 333) BOOST_TEST(back.to_vector<float>()[i] == 2 * values[i]);
}

BOOST_AUTO_TEST_CASE(copies_from_and_to_pinned_memory_are_waited_for_unless_told_otherwise) {
  const std::vector<float> values = counted(4000);
  const Tensor pinned = cuda::pinned_empty({4000}), back = cuda::pinned_empty({4000});
  raw::copy_(pinned, raw::from_data(values, {4000}));
  const Tensor there = pinned.to(kGPU);
  raw::fill_(pinned, 0);
  raw::copy_(back, there);
  BOOST_TEST(back.to_vector<float>() == values, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(pinned_blocks_are_reused_once_their_copies_are_done) {
  std::byte* first = nullptr;
  {
    cuda::PinnedBuffer buffer(3000);
    BOOST_TEST(buffer.bytes() >= 3000);
    first = buffer.data();
    buffer.used_by(cuda::Stream::current());
  }
  cuda::synchronize();
  const cuda::PinnedBuffer again(3000);
  BOOST_TEST((again.data() == first));
}

BOOST_AUTO_TEST_CASE(more_pinned_memory_than_numbers_count_is_refused) {
  constexpr int64_t kHuge = int64_t{1} << 60;
  BOOST_CHECK_THROW(cuda::pinned_empty({kHuge * 4}, kFloat64), ShapeError);
  BOOST_CHECK_THROW(cuda::pinned_empty({kHuge + 1}, kFloat64), Error);
}

BOOST_AUTO_TEST_CASE(copies_go_from_device_to_device, *boost::unit_test::precondition([](auto) {
                       return boost::test_tools::assertion_result(two_devices());
                     })) {
  const Device other{DeviceType::cuda, 1};
  const Tensor x = on_gpu(counted(3000)), y = (x + 1).to(other), z = (y * 2).to(kGPU);
  BOOST_TEST((y.device() == other));
  const std::vector<float> got = z.to_vector<float>(), values = counted(3000);
  for (std::size_t i = 0; i < got.size(); i += 299) BOOST_TEST(got[i] == 2 * (values[i] + 1));
  BOOST_CHECK_THROW(x + y, Error);
}

BOOST_AUTO_TEST_CASE(threads_allocate_and_compute_at_once) {
  const int64_t live = cuda::memory_stats().live_blocks;
  std::vector<std::thread> threads;
  std::vector<double> sums(4);
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([t, &sums] {
      for (int i = 0; i < 20; ++i) {
        const Tensor x = raw::full({257}, static_cast<double>(t + 1), kFloat64, kGPU);
        for (const double value : (x * 2).to_vector<double>()) sums[t] += value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 4; ++t) BOOST_TEST(sums[t] == 20 * 257 * 2.0 * static_cast<double>(t + 1));
  BOOST_TEST(cuda::memory_stats().live_blocks == live);
}

BOOST_AUTO_TEST_SUITE_END()
