#include "tendril/rpc/wire/hello.h"

#include <boost/test/unit_test.hpp>

#include "tests/contains.h"
#include "tests/rpc/messages.h"

BOOST_AUTO_TEST_SUITE(hello)

using namespace tendril;
using namespace tendril::rpc;
using namespace tendril::rpc::testing;

namespace {

Hello observer() {
  Hello hello;
  hello.worker = {"obs1", 2};
  hello.world_size = 3;
  hello.group = "cartpole-7";
  hello.incarnation = 0x1122334455667788;
  return hello;
}

Hello agent() {
  Hello hello = observer();
  hello.worker = {"agent", 0};
  hello.incarnation = 5;
  return hello;
}

std::string complaint(const HelloExpectation& expected, const Hello& theirs) {
  try {
    check_hello(agent(), expected, theirs);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

Device cuda(int8_t index) { return {DeviceType::cuda, index}; }

using tendril::test::contains;

}  // namespace

BOOST_AUTO_TEST_CASE(hellos_have_golden_bytes_both_ways) {
  Hello full = observer();
  full.features = {{64, {}}, {65, bytes_of("abc")}};
  BOOST_TEST((encode(full) == golden("hello.bin")));
  BOOST_TEST((decode_hello(golden("hello.bin")) == full));

  Hello refusal = observer();
  refusal.refusal = "the name 'obs1' is taken";
  BOOST_TEST((encode(refusal) == golden("refusal.bin")));
  BOOST_TEST((decode_hello(golden("refusal.bin")) == refusal));
}

BOOST_AUTO_TEST_CASE(device_reports_have_golden_bytes_both_ways) {
  Hello hello = observer();
  hello.devices = {.cuda_devices = 2, .map = {{0, 1}, {kCPU, cuda(0)}}};
  BOOST_TEST((encode(hello) == golden("devices_hello.bin")));
  BOOST_TEST((decode_hello(golden("devices_hello.bin")) == hello));
}

BOOST_AUTO_TEST_CASE(cuda_ipc_is_a_separate_record) {
  Hello hello = decode_hello(golden("devices_hello.bin"));
  hello.devices.cuda_ipc = true;
  const Bytes bytes = encode(hello);
  BOOST_TEST(bytes.size() == golden("devices_hello.bin").size() + 4);
  BOOST_TEST((decode_hello(bytes) == hello));
  hello.devices = {.cuda_devices = 0, .map = {}, .cuda_ipc = true};
  BOOST_TEST((decode_hello(encode(hello)) == hello));
}

BOOST_AUTO_TEST_CASE(only_later_sessions_need_a_record) {
  Hello hello = observer();
  const std::size_t size = encode(hello).size();
  hello.resumption = {.grace_ms = 1000, .peer_incarnation = 7};
  const std::size_t with_resumption = encode(hello).size();
  hello.resumption.session = 3;
  hello.resumption.taken = 2;
  const Bytes bytes = encode(hello);
  BOOST_TEST(bytes.size() == with_resumption + 12);
  BOOST_TEST((decode_hello(bytes) == hello));
  hello.resumption = {};
  hello.refusal = "it has ended";
  hello.refusal_kind = RefusalKind::ended;
  hello.resumption.session = 4;
  BOOST_TEST((decode_hello(encode(hello)) == hello));
  BOOST_TEST(encode(observer()).size() == size);
  Bytes bad = bytes;
  const std::byte number[] = {std::byte{14}, std::byte{0}, std::byte{8}, std::byte{0}, std::byte{3}};
  const auto at = std::search(bad.begin(), bad.end(), std::begin(number), std::end(number));
  BOOST_REQUIRE((at != bad.end()));
  *(at + 4) = std::byte{0};
  BOOST_CHECK_THROW(decode_hello(bad), MessageError);
}

BOOST_AUTO_TEST_CASE(invalid_device_report_is_refused) {
  const Bytes good = golden("devices_hello.bin");
  const std::size_t count = good.size() - 9;
  const auto complaint_of = [&](std::size_t offset, int value) -> std::string {
    Bytes bad = good;
    bad[offset] = static_cast<std::byte>(value);
    try {
      decode_hello(bad);
    } catch (const MessageError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(complaint_of(count, 128) == "");
  BOOST_TEST(contains(complaint_of(count, 129), "129 CUDA devices, at most 128"));
  BOOST_TEST(contains(complaint_of(count + 1, 2), "unknown device type 2"));
  BOOST_TEST(contains(complaint_of(count + 2, 200), "there is no device cuda:-56"));
  BOOST_TEST(contains(complaint_of(count + 6, 1), "there is no device cpu:1"));
  BOOST_TEST(contains(complaint_of(count + 8, 1), "maps two devices to cuda:1"));
  BOOST_TEST(contains(complaint_of(count - 2, 8), "record 8 has the wrong length"));
}

BOOST_AUTO_TEST_CASE(size_is_known_after_twelve_bytes) {
  const Bytes bytes = encode(observer());
  for (std::size_t size = 0; size < kHelloPrefixBytes; ++size) BOOST_TEST(!hello_size(std::span(bytes).first(size)));
  BOOST_TEST(hello_size(std::span(bytes).first(kHelloPrefixBytes)).value() == bytes.size());
}

BOOST_AUTO_TEST_CASE(first_wrong_byte_is_refused) {
  BOOST_CHECK_THROW(hello_size(bytes_of("GET / HTTP/1.1")), MessageError);
  BOOST_CHECK_THROW(hello_size(bytes_of("X")), MessageError);
}

BOOST_AUTO_TEST_CASE(hello_over_4_kib_is_refused) {
  Bytes bytes = encode(observer());
  const uint32_t length = kMaxHelloBytes;
  std::memcpy(bytes.data() + 8, &length, 4);
  BOOST_CHECK_THROW(hello_size(bytes), MessageError);
  Hello large = observer();
  large.group.resize(kMaxHelloBytes);
  BOOST_CHECK_THROW(encode(large), MessageError);
}

BOOST_AUTO_TEST_CASE(truncations_and_bit_flips_are_survived) {
  const Bytes good = golden("hello.bin");
  for (std::size_t size = 0; size < good.size(); ++size) {
    BOOST_CHECK_THROW(decode_hello(std::span(good).first(size)), MessageError);
  }
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    try {
      decode_hello(bad);
    } catch (const MessageError&) {
    }
  }
}

BOOST_AUTO_TEST_CASE(unknown_records_are_skipped) {
  Bytes bytes = encode(observer());
  const Bytes unknown = {std::byte{40}, std::byte{0}, std::byte{2}, std::byte{0}, std::byte{1}, std::byte{2}};
  bytes.insert(bytes.end(), unknown.begin(), unknown.end());
  const auto length = static_cast<uint32_t>(bytes.size() - kHelloPrefixBytes);
  std::memcpy(bytes.data() + 8, &length, 4);
  BOOST_TEST((decode_hello(bytes) == observer()));
}

BOOST_AUTO_TEST_CASE(expected_peer_is_accepted) {
  BOOST_TEST(check_hello(agent(), {"cartpole-7", 3, WorkerInfo{"obs1", 2}}, observer()) == kWireVersion);
  BOOST_TEST(check_hello(agent(), {}, observer()) == kWireVersion);
}

BOOST_AUTO_TEST_CASE(highest_common_version_is_chosen) {
  Hello mine = agent(), theirs = observer();
  mine.min_version = 2, mine.max_version = 5;
  theirs.min_version = 1, theirs.max_version = 3;
  BOOST_TEST(check_hello(mine, {}, theirs) == 3);
}

BOOST_AUTO_TEST_CASE(error_names_the_difference) {
  Hello theirs = observer();
  theirs.min_version = theirs.max_version = 9;
  BOOST_TEST(contains(complaint({}, theirs), "wire versions 9 to 9, this side 0 to 0"));
  BOOST_TEST(contains(complaint({.group = "other"}, observer()), "group 'cartpole-7', not to 'other'"));
  BOOST_TEST(contains(complaint({.world_size = 4}, observer()), "world size of 3, this side 4"));
  BOOST_TEST(contains(complaint({.worker = WorkerInfo{"obs2", 1}}, observer()), "where worker 'obs2' (rank 1)"));
  BOOST_TEST(contains(complaint({.worker = WorkerInfo{"obs2", 2}}, observer()), "where worker 'obs2' (rank 2)"));
  theirs = observer();
  theirs.worker.id = 7;
  BOOST_TEST(contains(complaint({}, theirs), "rank out of range"));
  theirs = observer();
  theirs.worker.id = 0;
  BOOST_TEST(contains(complaint({}, theirs), "has the rank of this worker"));
  theirs = observer();
  theirs.worker.name = "agent";
  BOOST_TEST(contains(complaint({}, theirs), "names must be unique"));
  theirs = observer();
  theirs.devices.map = {{1, 0}};
  BOOST_TEST(contains(complaint({}, theirs),
                      "the device map {cuda:1 -> cuda:0} of worker 'obs1' (rank 2) for worker "
                      "'agent' (rank 0) names cuda:1 here, but worker 'obs1' (rank 2) has no "
                      "CUDA device"));
  theirs.devices.cuda_devices = 2;
  BOOST_TEST(contains(complaint({}, theirs), "names cuda:0 there, but worker 'agent' (rank 0) has no CUDA device"));
  theirs = observer();
  theirs.refusal = "too late";
  BOOST_TEST(contains(complaint({}, theirs), "refused the connection of 'agent' (rank 0): too late"));
}

BOOST_AUTO_TEST_SUITE_END()
