// Device tensors as arguments and results, between agents in this process.
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "tendril/rpc/rref.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"
#include "tests/rpc/cluster.h"

namespace gpu {

using namespace rpc_test;

Device cuda_device(int index) { return {DeviceType::cuda, static_cast<int8_t>(index)}; }

std::string device_of(const Tensor& x) {
  std::ostringstream text;
  text << x.device();
  return text.str();
}

Tensor same(const Tensor& x) { return x; }
Tensor same_after_cut(const Tensor& x) {
  Cluster::cut(0, 1);
  return x;
}
std::string seen_on(const Tensor& x) { return device_of(x); }
std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }
std::pair<Tensor, Tensor> both_ways(const Tensor& x, const Tensor& y) { return {y, x}; }
Tensor moved(const Tensor& x, int device) { return device < 0 ? raw::to(x, kCPU) : raw::to(x, cuda_device(device)); }
Tensor by_way_of(int next, const Tensor& x) { return rpc_sync<&same>(Cluster::agent(1), next, x); }
std::string owner_sees(const RRef<Tensor>& reference) { return device_of(reference.to_here()); }
Tensor rows_of(const Tensor& x, const Tensor& index) { return x.index_select(0, index); }
int64_t how_many_rows(const Tensor& x, const Tensor& index) { return x.index_select(0, index).numel(); }
Future<Tensor> rows_later(const Tensor& x, const Tensor& index) {
  return rpc_async<&same>(Cluster::agent(1), 2, x).then([index](Future<Tensor> done) {
    return done.wait().index_select(0, index);
  });
}
Future<Tensor> later(const Tensor& x) {
  return rpc_async<&same>(Cluster::agent(1), 2, x).then([](Future<Tensor> done) { return done.wait(); });
}
namespace {

Tensor on(int device, const Tensor& x) { return raw::to(raw::to(x, kCPU), cuda_device(device)); }
Tensor numbers(int64_t count) { return raw::to(raw::arange(0, static_cast<double>(count), 1, kFloat32), kCPU); }

boost::test_tools::assertion_result has_device(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 0;
}
boost::test_tools::assertion_result two_devices(boost::unit_test::test_unit_id) {
  return device_count(DeviceType::cuda) > 1;
}

}  // namespace

/// Turns index checks off, as by default: an index error is then reported where the device is next waited for.
struct Unchecked {
  Unchecked() { cuda::set_checked(false); }
  ~Unchecked() { cuda::set_checked(before); }
  const bool before = cuda::checked();
};

/// Checks that each test ends with as much device memory in use as before it.
struct NothingLeft {
  NothingLeft() {
    for (int i = 0; i < device_count(DeviceType::cuda); ++i) before.push_back(cuda::memory_stats(i).live_bytes);
  }
  ~NothingLeft() {
    for (int i = 0; i < device_count(DeviceType::cuda); ++i) {
      const auto as_before = [&] { return cuda::memory_stats(i).live_bytes == before[static_cast<std::size_t>(i)]; };
      BOOST_TEST(Cluster::eventually(as_before), "cuda:" << i << " holds " << cuda::memory_stats(i).live_bytes
                                                         << " bytes, " << before[static_cast<std::size_t>(i)]
                                                         << " before the test");
    }
  }
  std::vector<int64_t> before;
};

AgentOptions mapped(std::map<std::string, DeviceMap> maps) {
  AgentOptions options;
  options.num_worker_threads = 1;
  options.device_maps = std::move(maps);
  return options;
}

}  // namespace gpu

BOOST_TEST_DECORATOR(*boost::unit_test::precondition(gpu::has_device))
BOOST_FIXTURE_TEST_SUITE(gpu, NothingLeft)

BOOST_AUTO_TEST_CASE(tensor_keeps_its_device_both_ways) {
  const Cluster cluster(2, mapped({}));
  for (int device = 0; device < device_count(DeviceType::cuda); ++device) {
    const Tensor x = on(device, numbers(1000));
    BOOST_TEST(rpc_sync<&seen_on>(cluster[0], 1, x) == device_of(x));
    BOOST_TEST(rpc_sync<&values_of>(cluster[0], 1, x) == values_of(x));
    const Tensor back = rpc_sync<&same>(cluster[0], 1, x);
    BOOST_TEST(back.device() == x.device());
    BOOST_TEST(raw::equal(back, x));
    BOOST_TEST((back.storage() != x.storage()));
  }
}

BOOST_AUTO_TEST_CASE(cpu_and_device_tensors_share_a_message) {
  const Cluster cluster(2, mapped({}));
  const Tensor x = numbers(3), y = on(0, numbers(70'000));
  const auto [first, second] = rpc_sync<&both_ways>(cluster[0], 1, x, y);
  BOOST_TEST(first.device() == cuda_device(0));
  BOOST_TEST(second.device() == kCPU);
  BOOST_TEST(raw::equal(first, y));
  BOOST_TEST(raw::equal(second, x));
}

BOOST_AUTO_TEST_CASE(every_layout_keeps_values_and_strides) {
  const Cluster cluster(2, mapped({}));
  const Tensor block = on(0, raw::view(numbers(60), {3, 4, 5}));
  const Tensor layouts[] = {
      raw::transpose(block, 0, 2), raw::narrow(block, 0, 1, 2),
      block.slice(2, 0, 5, 2),     raw::expand(raw::narrow(block, 2, 0, 1), {3, 4, 6}),
      raw::narrow(block, 1, 2, 0), raw::select(raw::select(raw::select(block, 0, 1), 0, 1), 0, 1)};
  for (const Tensor& x : layouts) {
    const Tensor there_and_back = rpc_sync<&same>(cluster[0], 1, x);
    const Tensor in_the_house = rpc_sync<&same>(cluster[0], 0, x);
    BOOST_TEST(raw::equal(there_and_back, x));
    BOOST_TEST(raw::equal(in_the_house, x));
    BOOST_TEST(there_and_back.strides() == in_the_house.strides());
    BOOST_TEST(in_the_house.device() == x.device());
    BOOST_TEST((in_the_house.storage() != x.storage()));
  }
}

BOOST_AUTO_TEST_CASE(concurrent_calls_do_not_mix_buffers) {
  const Cluster cluster(2, mapped({}));
  std::vector<Future<Tensor>> results;
  std::vector<Tensor> sent;
  for (int i = 0; i < 50; ++i) {
    sent.push_back(on(0, raw::full({1000 + 10 * i}, i)));
    results.push_back(rpc_async<&same>(cluster[0], 1, sent.back()));
  }
  for (std::size_t i = 0; i < sent.size(); ++i) BOOST_TEST(raw::equal(results[i].wait(), sent[i]));
}

BOOST_AUTO_TEST_CASE(nested_calls_pass_tensors_on) {
  const Cluster cluster(3, mapped({}));
  const Tensor x = on(0, numbers(100));
  BOOST_TEST(raw::equal(rpc_sync<&by_way_of>(cluster[0], 1, 2, x), x));
  BOOST_TEST(raw::equal(rpc_sync<&by_way_of>(cluster[0], 1, 0, x), x));
  BOOST_TEST(raw::equal(rpc_sync<&later>(cluster[0], 1, x), x));
}

BOOST_AUTO_TEST_CASE(device_tensor_references_can_be_passed_on) {
  const Cluster cluster(3, mapped({}));
  const Tensor x = on(0, numbers(100));
  const RRef<Tensor> reference = remote<&same>(cluster[0], 1, x);
  BOOST_TEST(raw::equal(reference.to_here(), x));
  BOOST_TEST(reference.to_here().device() == x.device());
  BOOST_TEST(rpc_sync<&owner_sees>(cluster[0], 2, reference) == "cuda:0");
}

BOOST_AUTO_TEST_CASE(continuations_send_device_tensors) {
  const Cluster cluster(2, mapped({}));
  const Tensor x = on(0, numbers(1000));
  Agent& agent = cluster[0];
  Future<Tensor> again = rpc_async<&same>(agent, 1, x).then([&agent](Future<Tensor> done) {
    return rpc_async<&same>(agent, 1, done.wait());
  });
  BOOST_TEST(raw::equal(again.wait(), x));
}

BOOST_AUTO_TEST_CASE(arguments_follow_map_and_results_its_inverse, *boost::unit_test::precondition(two_devices)) {
  const Cluster cluster(2, mapped({{"w1", {{0, 1}}}}));
  const Tensor x = on(0, numbers(100));
  BOOST_TEST(rpc_sync<&seen_on>(cluster[0], 1, x) == "cuda:1");
  const Tensor back = rpc_sync<&same>(cluster[0], 1, x);
  BOOST_TEST(back.device() == cuda_device(0));
  BOOST_TEST(raw::equal(back, x));
  BOOST_TEST(raw::equal(remote<&same>(cluster[0], 1, x).to_here(), x));
  // w1 uses the same map for calls to itself.
  BOOST_TEST(rpc_sync<&seen_on>(cluster[1], 1, x) == "cuda:1");
  BOOST_TEST(raw::equal(rpc_sync<&same>(cluster[1], 1, x), x));
  BOOST_TEST(rpc_sync<&same>(cluster[1], 1, x).device() == cuda_device(0));
}

BOOST_AUTO_TEST_CASE(unmapped_device_fails_only_its_call, *boost::unit_test::precondition(two_devices)) {
  const Cluster cluster(2, mapped({{"w1", {{0, 1}}}}));
  const Tensor x = on(0, numbers(10)), astray = on(1, numbers(10));
  for (int i = 0; i < 20; ++i) {
    BOOST_CHECK_THROW(rpc_sync<&same>(cluster[0], 1, astray), UsageError);
    const std::string error = message_of<RemoteError>([&] { rpc_sync<&moved>(cluster[0], 1, x, 0); });
    BOOST_TEST(contains(error, "reply to worker 'w0' (rank 0): tensor 0, on cuda:0"), error);
  }
  BOOST_TEST(raw::equal(rpc_sync<&same>(cluster[0], 1, x), x));
}

BOOST_AUTO_TEST_CASE(map_may_lead_to_or_from_cpu) {
  const Tensor x = numbers(1000);
  {
    const Cluster cluster(2, mapped({{"w1", {{kCPU, cuda_device(0)}}}}));
    BOOST_TEST(rpc_sync<&seen_on>(cluster[0], 1, x) == "cuda:0");
    const Tensor back = rpc_sync<&same>(cluster[0], 1, x);
    BOOST_TEST(back.device() == kCPU);
    BOOST_TEST(raw::equal(back, x));
    BOOST_TEST(rpc_sync<&seen_on>(cluster[1], 1, x) == "cuda:0");
    BOOST_TEST(raw::equal(rpc_sync<&same>(cluster[1], 1, x), x));
  }
  const Cluster cluster(2, mapped({{"w1", {{cuda_device(0), kCPU}}}}));
  BOOST_TEST(rpc_sync<&seen_on>(cluster[0], 1, on(0, x)) == "cpu");
  BOOST_TEST(rpc_sync<&same>(cluster[0], 1, on(0, x)).device() == cuda_device(0));
  BOOST_TEST(raw::equal(rpc_sync<&same>(cluster[0], 1, on(0, x)), x));
}

BOOST_AUTO_TEST_CASE(pending_stream_work_finishes_before_reading) {
  const Cluster cluster(2, mapped({}));
  const cuda::Stream stream(0);
  const cuda::StreamGuard guard(stream);
  for (int i = 0; i < 10; ++i) {
    const Tensor x = on(0, raw::full({10'000}, i));
    const Tensor y = raw::clone(x);  // on the stream
    for (const int to : {0, 1}) {
      BOOST_TEST((rpc_sync<&values_of>(cluster[0], to, y) == std::vector<double>(10'000, i)));
    }
  }
}

BOOST_AUTO_TEST_CASE(cut_connection_with_device_tensors_leaves_nothing) {
  const Cluster cluster(2, mapped({}));
  const Tensor x = on(0, numbers(10'000));
  std::vector<Future<Tensor>> results;
  int lost = 0;
  for (int i = 0; i < 10; ++i)
    results.push_back(i == 5 ? rpc_async<&same_after_cut>(cluster[0], 1, x) : rpc_async<&same>(cluster[0], 1, x));
  for (Future<Tensor>& result : results) {
    try {
      BOOST_TEST(raw::equal(result.wait(), x));
    } catch (const PeerLostError&) {
      ++lost;
    }
  }
  BOOST_TEST(lost > 0);
  BOOST_TEST(Cluster::eventually([&] { return cluster[1].metrics().active_handlers == 0; }));
}

BOOST_AUTO_TEST_CASE(exhausted_device_memory_fails_only_its_call) {
  const Cluster cluster(2, mapped({{"w1", {{kCPU, cuda_device(0)}}}}));
  const Tensor x = numbers(16);
  const int64_t live = cuda::memory_stats(0).live_bytes;
  std::vector<Tensor> hoard;
  for (int64_t elements = int64_t{1} << 24; elements >= 128; elements /= 16) {
    try {
      for (;;) hoard.push_back(raw::empty({elements}, kFloat32, cuda_device(0)));
    } catch (const Error&) {
    }
  }
  const std::string error = message_of<RemoteError>([&] { rpc_sync<&seen_on>(cluster[0], 1, x); });
  BOOST_TEST(contains(error, "out of memory"), error);
  hoard.clear();
  BOOST_TEST(rpc_sync<&seen_on>(cluster[0], 1, x) == "cuda:0");
  BOOST_TEST(Cluster::eventually([&] { return cuda::memory_stats(0).live_bytes == live; }));
}

BOOST_AUTO_TEST_CASE(bad_index_fails_its_own_call) {
  const Unchecked unchecked;
  const Cluster cluster(3, mapped({}));
  const Tensor x = on(0, raw::view(numbers(20), {5, 4})), good = on(0, raw::from_data(std::vector<int64_t>{4, 0}, {2})),
               bad = on(0, raw::from_data(std::vector<int64_t>{0, 9}, {2}));
  const std::vector<double> rows = x.index_select(0, good).to_vector<double>();
  // Calls another worker, whose result is staged, and this worker, whose result stays in place.
  for (const int to : {1, 0}) {
    BOOST_TEST_CONTEXT("to w" << to) {
      for (int i = 0; i < 3; ++i) {
        const std::string error = message_of<RemoteError>([&] { rpc_sync<&rows_of>(cluster[0], to, x, bad); });
        BOOST_TEST(contains(error, "index_select: index 9 is out of range"), error);
        BOOST_TEST(rpc_sync<&rows_of>(cluster[0], to, x, good).to_vector<double>() == rows);
      }
      // A result without tensors, and a result that stays on its owner.
      const std::string counted = message_of<RemoteError>([&] { rpc_sync<&how_many_rows>(cluster[0], to, x, bad); });
      BOOST_TEST(contains(counted, "index 9"), counted);
      BOOST_TEST(rpc_sync<&how_many_rows>(cluster[0], to, x, good) == 8);
      const std::string kept = message_of<Error>([&] { remote<&rows_of>(cluster[0], to, x, bad).to_here(); });
      BOOST_TEST(contains(kept, "index 9"), kept);
    }
  }
  const std::string late = message_of<RemoteError>([&] { rpc_sync<&rows_later>(cluster[0], 1, x, bad); });
  BOOST_TEST(contains(late, "index 9"), late);
  BOOST_CHECK_NO_THROW(cuda::synchronize());  // no error is left for later work
}

BOOST_AUTO_TEST_CASE(concurrent_calls_get_only_their_own_errors) {
  const Unchecked unchecked;
  AgentOptions options = mapped({});
  options.num_worker_threads = 4;
  const Cluster cluster(2, options);
  const Tensor x = on(0, raw::view(numbers(20), {5, 4})), good = on(0, raw::from_data(std::vector<int64_t>{4, 0}, {2}));
  const std::vector<double> rows = x.index_select(0, good).to_vector<double>();
  std::vector<Future<Tensor>> results;
  for (int64_t i = 0; i < 40; ++i) {
    const Tensor index = i % 2 == 0 ? good : on(0, raw::from_data(std::vector<int64_t>{0, 10 + i}, {2}));
    results.push_back(rpc_async<&rows_of>(cluster[0], 1, x, index));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i % 2 == 0) {
      BOOST_TEST(results[i].wait().to_vector<double>() == rows);
    } else {
      const std::string error = message_of<RemoteError>([&] { results[i].wait(); });
      BOOST_TEST(contains(error, "index " + std::to_string(10 + i) + " is out of range"), error);
    }
  }
  BOOST_CHECK_NO_THROW(cuda::synchronize());
}

BOOST_AUTO_TEST_CASE(bad_index_arguments_are_not_sent) {
  const Unchecked unchecked;
  const Cluster cluster(2, mapped({}));
  const Tensor x = on(0, raw::view(numbers(20), {5, 4})), bad = on(0, raw::from_data(std::vector<int64_t>{9}, {1}));
  const std::string error = message_of<IndexError>([&] { rpc_sync<&same>(cluster[0], 1, x.index_select(0, bad)); });
  BOOST_TEST(contains(error, "index 9 is out of range"), error);
  BOOST_CHECK_NO_THROW(cuda::synchronize());
  BOOST_TEST(raw::equal(rpc_sync<&same>(cluster[0], 1, x), x));
}

BOOST_AUTO_TEST_SUITE_END()
