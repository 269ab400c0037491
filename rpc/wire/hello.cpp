#include "tendril/rpc/wire/hello.h"

#include <algorithm>
#include <cstring>

#include "tendril/rpc/wire/byte_order.h"

namespace tendril::rpc {
namespace {

constexpr char kMagic[8] = {'T', 'E', 'N', 'D', 'R', 'I', 'L', '\0'};

// Everything after the versions is a record {u16 id, u16 length, data}, so that versions can send different records.
enum RecordId : uint16_t {
  kWorker = 1,         // i32 rank, then the name
  kGroup = 2,          // i32 world size, then the group's id
  kIncarnation = 3,    // u64
  kLimits = 5,         // 5 x u64
  kRefusal = 7,        // text
  kDevices = 8,        // u8 number of CUDA devices, then 4 bytes for each entry of the map; absent: none
  kRequestWindow = 9,  // u64
  kResumption = 10,    // u32 milliseconds, u64 incarnation, u64 frames, u32 attempt, then the endpoint; absent: none
  kEnquiry = 11,       // empty; absent: a session
  kRefusalKind = 12,   // u8; absent: 0
  kCudaIpc = 13,       // empty; absent: the worker neither lends nor borrows device memory
  kSession = 14,       // u32 session number, u32 last attempt accepted; absent: 1 and 0
  kPlain = 15,         // empty; absent: over TCP, TLS continues after the hellos
  kFirstFeature = 64   // this and above: Hello::features
};

void put_record(Bytes& out, uint16_t id, const void* data, std::size_t size) {
  const std::size_t at = out.size();
  TENDRIL_CHECK_AS(MessageError, at + 4 + size <= kMaxHelloBytes, "a hello has at most ", kMaxHelloBytes, " bytes");
  out.resize(at + 4 + size);
  std::byte* to = put<uint16_t>(out.data() + at, id);
  to = put<uint16_t>(to, static_cast<uint16_t>(size));
  if (size > 0) std::memcpy(to, data, size);
}

void put_number_and_text(Bytes& out, uint16_t id, int32_t number, const std::string& text) {
  Bytes data(4 + text.size());
  std::byte* to = put(data.data(), number);
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  put_record(out, id, data.data(), data.size());
}

void put_devices(Bytes& out, const DeviceReport& report) {
  Bytes data(1 + 4 * report.map.entries().size());
  std::byte* to = put<uint8_t>(data.data(), static_cast<uint8_t>(report.cuda_devices));
  for (const DeviceMap::Entry& entry : report.map.entries()) to = put(put(to, entry.local), entry.remote);
  put_record(out, kDevices, data.data(), data.size());
}

Device get_device(const std::byte* from) {
  const auto type = get<uint8_t>(from);
  TENDRIL_CHECK_AS(MessageError, type <= 1, "bad hello: unknown device type ", int{type});
  return {static_cast<DeviceType>(type), get<int8_t>(from + 1)};
}

DeviceReport get_devices(std::span<const std::byte> data, bool cuda_ipc) {
  DeviceReport report{.cuda_devices = get<uint8_t>(data.data()), .map = {}, .cuda_ipc = cuda_ipc};
  TENDRIL_CHECK_AS(MessageError, report.cuda_devices <= kMaxCudaDevices, "bad hello: ", report.cuda_devices,
                   " CUDA devices, at most ", kMaxCudaDevices);
  std::vector<DeviceMap::Entry> entries;
  try {
    for (std::size_t at = 1; at < data.size(); at += 4) {
      entries.emplace_back(get_device(&data[at]), get_device(&data[at + 2]));
    }
    report.map = DeviceMap(std::move(entries));
  } catch (const UsageError& error) {
    throw MessageError(std::string("bad hello: ") + error.what());
  }
  return report;
}

std::string text_of(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

void require_size(bool fits, uint16_t id) {
  TENDRIL_CHECK_AS(MessageError, fits, "bad hello: record ", id, " has the wrong length");
}

void read_record(Hello& hello, uint16_t id, std::span<const std::byte> data) {
  switch (id) {
    case kWorker:
      require_size(data.size() >= 4, id);
      hello.worker.id = get<int32_t>(data.data());
      hello.worker.name = text_of(data.subspan(4));
      break;
    case kGroup:
      require_size(data.size() >= 4, id);
      hello.world_size = get<int32_t>(data.data());
      hello.group = text_of(data.subspan(4));
      break;
    case kIncarnation:
      require_size(data.size() == 8, id);
      hello.incarnation = get<uint64_t>(data.data());
      break;
    case kLimits:
      require_size(data.size() == 40, id);
      hello.limits = {.max_extension_bytes = get<uint64_t>(data.data()),
                      .max_payload_bytes = get<uint64_t>(data.data() + 8),
                      .max_tensor_bytes = get<uint64_t>(data.data() + 16),
                      .max_tensors = get<uint64_t>(data.data() + 24),
                      .max_references = get<uint64_t>(data.data() + 32)};
      break;
    case kRequestWindow:
      require_size(data.size() == 8, id);
      hello.request_window = get<uint64_t>(data.data());
      break;
    case kResumption:
      require_size(data.size() >= 24, id);
      hello.resumption.grace_ms = get<uint32_t>(data.data());
      hello.resumption.endpoint = text_of(data.subspan(24));
      hello.resumption.peer_incarnation = get<uint64_t>(data.data() + 4);
      hello.resumption.received = get<uint64_t>(data.data() + 12);
      hello.resumption.attempt = get<uint32_t>(data.data() + 20);
      break;
    case kSession:
      require_size(data.size() == 8, id);
      hello.resumption.session = get<uint32_t>(data.data());
      hello.resumption.taken = get<uint32_t>(data.data() + 4);
      TENDRIL_CHECK_AS(MessageError, hello.resumption.session > 0, "bad hello: sessions are numbered from 1, got 0");
      break;
    case kEnquiry:
      require_size(data.empty(), id);
      hello.enquiry = true;
      break;
    case kPlain:
      require_size(data.empty(), id);
      hello.plain = true;
      break;
    case kRefusalKind:
      require_size(data.size() == 1, id);
      TENDRIL_CHECK_AS(MessageError, get<uint8_t>(data.data()) <= static_cast<uint8_t>(RefusalKind::ended),
                       "bad hello: unknown kind of refusal ", int{get<uint8_t>(data.data())});
      hello.refusal_kind = static_cast<RefusalKind>(get<uint8_t>(data.data()));
      break;
    case kRefusal:
      hello.refusal = text_of(data);
      break;
    case kDevices:
      require_size(data.size() % 4 == 1, id);
      hello.devices = get_devices(data, hello.devices.cuda_ipc);
      break;
    case kCudaIpc:
      require_size(data.empty(), id);
      hello.devices.cuda_ipc = true;
      break;
    default:
      if (id >= kFirstFeature) hello.features.push_back({id, Bytes(data.begin(), data.end())});
  }
}

void put_resumption(Bytes& out, const Resumption& resumption) {
  Bytes data(24 + resumption.endpoint.size());
  std::byte* to = put(data.data(), resumption.grace_ms);
  to = put(put(put(to, resumption.peer_incarnation), resumption.received), resumption.attempt);
  if (!resumption.endpoint.empty()) std::memcpy(to, resumption.endpoint.data(), resumption.endpoint.size());
  put_record(out, kResumption, data.data(), data.size());
  if (resumption.session == 1 && resumption.taken == 0) return;
  std::byte session[8];
  put(put(session, resumption.session), resumption.taken);
  put_record(out, kSession, session, sizeof session);
}

std::string describe(const WorkerInfo& worker) {
  return "'" + worker.name + "' (rank " + std::to_string(worker.id) + ")";
}

}  // namespace

Bytes encode(const Hello& hello) {
  Bytes out(kHelloPrefixBytes + 4);
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  std::byte* versions = put<uint16_t>(out.data() + kHelloPrefixBytes, hello.min_version);
  put<uint16_t>(versions, hello.max_version);

  put_number_and_text(out, kWorker, hello.worker.id, hello.worker.name);
  put_number_and_text(out, kGroup, hello.world_size, hello.group);
  std::byte number[8];
  put(number, hello.incarnation);
  put_record(out, kIncarnation, number, sizeof number);
  const uint64_t limits[] = {hello.limits.max_extension_bytes, hello.limits.max_payload_bytes,
                             hello.limits.max_tensor_bytes, hello.limits.max_tensors, hello.limits.max_references};
  put_record(out, kLimits, limits, sizeof limits);
  put(number, hello.request_window);
  put_record(out, kRequestWindow, number, sizeof number);
  if (hello.resumption != Resumption{}) put_resumption(out, hello.resumption);
  if (!hello.refusal.empty()) put_record(out, kRefusal, hello.refusal.data(), hello.refusal.size());
  if (hello.enquiry) put_record(out, kEnquiry, nullptr, 0);
  if (hello.plain) put_record(out, kPlain, nullptr, 0);
  if (hello.refusal_kind != RefusalKind::usage) {
    put<uint8_t>(number, static_cast<uint8_t>(hello.refusal_kind));
    put_record(out, kRefusalKind, number, 1);
  }
  if (hello.devices.cuda_devices > 0 || !hello.devices.map.empty()) put_devices(out, hello.devices);
  if (hello.devices.cuda_ipc) put_record(out, kCudaIpc, nullptr, 0);
  for (const Feature& feature : hello.features) {
    TENDRIL_CHECK_AS(MessageError, feature.id >= kFirstFeature, "features are numbered from ", kFirstFeature);
    put_record(out, feature.id, feature.data.data(), feature.data.size());
  }
  put<uint32_t>(out.data() + sizeof kMagic, static_cast<uint32_t>(out.size() - kHelloPrefixBytes));
  return out;
}

std::optional<std::size_t> hello_size(std::span<const std::byte> start) {
  // The first wrong byte of the magic is enough to close the connection.
  TENDRIL_CHECK_AS(MessageError,
                   start.empty() || std::memcmp(start.data(), kMagic, std::min(start.size(), sizeof kMagic)) == 0,
                   "bad hello: it does not start with \"TENDRIL\": the other side is not a Tendril worker");
  if (start.size() < kHelloPrefixBytes) return std::nullopt;
  const std::size_t size = kHelloPrefixBytes + get<uint32_t>(start.data() + sizeof kMagic);
  TENDRIL_CHECK_AS(MessageError, size <= kMaxHelloBytes, "bad hello: ", size, " bytes announced, at most ",
                   kMaxHelloBytes);
  return size;
}

Hello decode_hello(std::span<const std::byte> bytes) {
  const auto size = hello_size(bytes);
  TENDRIL_CHECK_AS(MessageError, size && *size == bytes.size() && bytes.size() >= kHelloPrefixBytes + 4,
                   "bad hello: it is cut off");
  Hello hello;
  hello.min_version = get<uint16_t>(bytes.data() + kHelloPrefixBytes);
  hello.max_version = get<uint16_t>(bytes.data() + kHelloPrefixBytes + 2);
  for (auto rest = bytes.subspan(kHelloPrefixBytes + 4); !rest.empty();) {
    TENDRIL_CHECK_AS(MessageError, rest.size() >= 4, "bad hello: a record is cut off");
    const auto id = get<uint16_t>(rest.data()), length = get<uint16_t>(rest.data() + 2);
    TENDRIL_CHECK_AS(MessageError, rest.size() - 4 >= length, "bad hello: record ", id, " is cut off");
    read_record(hello, id, rest.subspan(4, length));
    rest = rest.subspan(4 + std::size_t{length});
  }
  return hello;
}

uint16_t agree_on_version(const Hello& mine, const Hello& theirs) {
  const uint16_t version = std::min(mine.max_version, theirs.max_version);
  TENDRIL_CHECK_AS(UsageError, version >= mine.min_version && version >= theirs.min_version, "worker ",
                   describe(theirs.worker), " speaks wire versions ", theirs.min_version, " to ", theirs.max_version,
                   ", this side ", mine.min_version, " to ", mine.max_version);
  return version;
}

uint16_t check_hello(const Hello& mine, const HelloExpectation& expected, const Hello& theirs) {
  const std::string they = "worker " + describe(theirs.worker);
  TENDRIL_CHECK_AS(UsageError, theirs.refusal.empty(), they, " refused the connection of ", describe(mine.worker), ": ",
                   theirs.refusal);
  const uint16_t version = agree_on_version(mine, theirs);
  TENDRIL_CHECK_AS(UsageError, expected.group.empty() || expected.group == theirs.group, they,
                   " belongs to the group '", theirs.group, "', not to '", expected.group, "'");
  TENDRIL_CHECK_AS(UsageError, expected.world_size == 0 || expected.world_size == theirs.world_size, they,
                   " expects a world size of ", theirs.world_size, ", this side ", expected.world_size);
  const int32_t world_size = expected.world_size != 0 ? expected.world_size : theirs.world_size;
  TENDRIL_CHECK_AS(UsageError, theirs.worker.id >= 0 && theirs.worker.id < world_size, they,
                   " has a rank out of range: the world size is ", world_size);
  TENDRIL_CHECK_AS(UsageError, theirs.worker.id != mine.worker.id, they, " has the rank of this worker, ",
                   describe(mine.worker));
  TENDRIL_CHECK_AS(UsageError, theirs.worker.name != mine.worker.name, they, " has the name of this worker, ",
                   describe(mine.worker), ": names must be unique");
  TENDRIL_CHECK_AS(UsageError, !expected.worker || expected.worker->id == theirs.worker.id, they,
                   " answered where worker ", describe(expected.worker.value_or(WorkerInfo{})), " was expected");
  TENDRIL_CHECK_AS(UsageError, !expected.worker || expected.worker->name.empty() || *expected.worker == theirs.worker,
                   they, " answered where worker ", describe(expected.worker.value_or(WorkerInfo{})), " was expected");
  TENDRIL_CHECK_AS(UsageError, theirs.limits.max_payload_bytes >= kMinPayloadBytes, they, " accepts payloads of ",
                   theirs.limits.max_payload_bytes, " bytes, expected at least ", kMinPayloadBytes);
  TENDRIL_CHECK_AS(UsageError, theirs.request_window >= kMinRequestWindow, they, " has a request window of ",
                   theirs.request_window, " bytes, expected at least ", kMinRequestWindow);
  check_device_map(mine.worker, mine.devices, theirs.worker, theirs.devices);
  check_device_map(theirs.worker, theirs.devices, mine.worker, mine.devices);
  return version;
}

}  // namespace tendril::rpc
