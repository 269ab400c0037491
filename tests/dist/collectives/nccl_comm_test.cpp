// Calls NCCL's functions, as declared in its header, in a fake library that uses threads and host memory instead of
// GPUs.
#include "tendril/dist/collectives/detail/nccl_comm.h"

#include <atomic>

#include "tests/dist/collectives/nccl.h"

BOOST_FIXTURE_TEST_SUITE(nccl_comm, dist_test::WithFakeNccl)

using namespace dist_test;
using dist::detail::NcclComm;
namespace nccl = dist::detail::nccl;

namespace {

constexpr int kSize = 3;
const auto kDone = [] { return true; };
const auto kPatient = [] {};

/// Runs f(rank, communicator) as each member and returns their errors, "" for members that did not throw.
template <class F>
std::vector<std::string> members(F f, const NcclComm::Look& look = kPatient) {
  const nccl::Id id = NcclComm::new_id();
  return outcomes(kSize, [&](int rank) {
    NcclComm comm(id, rank, kSize, look);
    f(rank, comm);
  });
}
void all_well(const std::vector<std::string>& said) {
  for (const std::string& mine : said) BOOST_TEST(mine == "");
}

/// A poll callback that throws after 200 ms.
struct Impatient {
  rpc::Clock::time_point end = rpc::Clock::now() + 200ms;
  void operator()() const {
    if (rpc::Clock::now() > end) throw rpc::TimeoutError("it takes too long");
  }
};

template <class T>
void check_reductions(DType dtype) {
  using Elements = std::vector<T>;
  all_well(members([&](int rank, NcclComm& comm) {
    const auto mine = [&] {
      T r = static_cast<T>(rank);
      ++r;
      return Elements{r, static_cast<T>(10 * r), static_cast<T>(7 - r), 4, 5, r};
    };
    const auto reduced = [&](ReduceOp op) {
      Elements x = mine();
      comm.all_reduce(x.data(), x.size(), dtype, op, nullptr, kDone, kPatient);
      return x;
    };
    check(reduced(ReduceOp::sum) == Elements{6, 60, 15, 12, 15, 6});
    check(reduced(ReduceOp::max) == Elements{3, 30, 6, 4, 5, 3});
    check(reduced(ReduceOp::min) == Elements{1, 10, 4, 4, 5, 1});
    if (is_floating(dtype)) check(reduced(ReduceOp::average) == Elements{2, 20, 5, 4, 5, 2});
    Elements x = mine(), expected = mine();
    comm.reduce_scatter(x.data(), 2, rank, dtype, ReduceOp::sum, nullptr, kDone, kPatient);
    const Elements sum{6, 60, 15, 12, 15, 6};
    const auto at = 2 * static_cast<std::size_t>(rank);
    expected[at] = sum[at];
    expected[at + 1] = sum[at + 1];
    check(x == expected);
  }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(reductions_cover_all_members_and_dtypes) {
  check_reductions<float>(kFloat32);
  check_reductions<double>(kFloat64);
  check_reductions<int32_t>(kInt32);
  check_reductions<int64_t>(kInt64);
  check_reductions<uint8_t>(kUInt8);
  BOOST_TEST(nccl::type_of(kFloat16) == 6);
  BOOST_TEST(nccl::type_of(kBFloat16) == 9);
  BOOST_TEST(nccl::type_of(kBool) == -1);
}

BOOST_AUTO_TEST_CASE(bytes_are_broadcast_and_gathered) {
  all_well(members([&](int rank, NcclComm& comm) {
    for (int root = 0; root < kSize; ++root) {
      std::string x(5, static_cast<char>('a' + rank));
      comm.broadcast(x.data(), x.size(), root, nullptr, kDone, kPatient);
      check(x == std::string(5, static_cast<char>('a' + root)));
    }
    std::string all(6, '.');
    const auto at = 2 * static_cast<std::size_t>(rank);
    all[at] = all[at + 1] = static_cast<char>('a' + rank);
    comm.all_gather(all.data(), 2, rank, nullptr, kDone, kPatient);
    check(all == "aabbcc");
  }));
}

BOOST_AUTO_TEST_CASE(operation_polls_until_its_stream_is_done) {
  all_well(members([&](int, NcclComm& comm) {
    int asked = 0;
    float x = 1;
    comm.all_reduce(
        &x, 1, kFloat32, ReduceOp::sum, nullptr, [&] { return ++asked == 5; }, kPatient);
    check(asked == 5);
  }));
}

BOOST_AUTO_TEST_CASE(timed_out_wait_ends_the_communicator) {
  const nccl::Id id = NcclComm::new_id();
  BOOST_CHECK_THROW(NcclComm(id, 0, 2, Impatient()), rpc::TimeoutError);
  const auto said = members([&](int rank, NcclComm& comm) {
    float x = 1;
    if (rank == 2) return;
    check_throws<rpc::TimeoutError>(
        [&] { comm.all_reduce(&x, 1, kFloat32, ReduceOp::sum, nullptr, kDone, Impatient()); });
    comm.broadcast(&x, 4, 0, nullptr, kDone, kPatient);
  });
  for (const std::size_t rank : {0u, 1u})
    BOOST_TEST(said[rank] == "CollectiveError: ncclBroadcast: the NCCL communicator has ended");
}

BOOST_AUTO_TEST_CASE(errors_quote_nccl) {
  const auto reduce = [](int, NcclComm& comm) {
    float x = 1;
    comm.all_reduce(&x, 1, kFloat32, ReduceOp::sum, nullptr, kDone, kPatient);
  };
  fake->refusing = true;
  for (const std::string& mine : members(reduce)) BOOST_TEST(mine == "CollectiveError: ncclAllReduce: invalid usage");
  fake->refusing = false;
  // The library breaks only after all members have joined.
  std::atomic<int> there{0};
  for (const std::string& mine : members([&](int rank, NcclComm&comm) {
         if (++there == kSize) fake->broken = true;
         Cluster::eventually([&] { return fake->broken.load(); });
         reduce(rank, comm);
       })) {
    BOOST_TEST(mine == "CollectiveError: ncclAllReduce: unhandled system error (the cable is out)");
  }
}

BOOST_AUTO_TEST_CASE(missing_or_old_library_is_reported) {
  ::setenv("TENDRIL_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
  BOOST_CHECK_EXCEPTION(NcclComm::load(), CollectiveError, says("cannot load NCCL's library", "/nowhere/libnccl.so.2"));
  ::setenv("TENDRIL_NCCL_LIBRARY", "libm.so.6", 1);
  BOOST_CHECK_EXCEPTION(NcclComm::load(), CollectiveError, says("libm.so.6 has no ncclGetVersion"));
  fake->version = 21212;
  const std::string another_name = std::string("/.").append(TENDRIL_FAKE_NCCL);
  ::setenv("TENDRIL_NCCL_LIBRARY", another_name.c_str(), 1);
  BOOST_CHECK_EXCEPTION(NcclComm::load(), CollectiveError, says("is version 21212, expected 21400 or later"));
  fake->version = 21400;
  NcclComm::load();
}

BOOST_AUTO_TEST_CASE(member_without_a_device_is_named,
                     *boost::unit_test::precondition([](boost::unit_test::test_unit_id) {
                       return boost::test_tools::assertion_result(device_count(DeviceType::cuda) == 0);
                     })) {
  const Group group(2);
  for (const std::string& mine : outcomes(
           2, [&](int rank) { const ProcessGroup members(group[rank], names(2), {.backend = dist::Backend::nccl}); })) {
    BOOST_TEST(has(mine, "CollectiveError: "), mine);
    BOOST_TEST(has(mine, "ProcessGroup: backend NCCL: "), mine);
    BOOST_TEST(has(mine, "CUDA"), mine);
  }
}

BOOST_AUTO_TEST_SUITE_END()
