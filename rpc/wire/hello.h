#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tendril/rpc/device_map.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/rpc/worker.h"

/// The first exchange of a connection, before any frame: the one that connects sends a Hello, the other answers with
/// its own. Each checks the other's hello before it uses anything else. docs/wire.md has the format. Nothing here does
/// I/O.
namespace tendril::rpc {

inline constexpr std::size_t kMaxHelloBytes = 4096;
inline constexpr std::size_t kHelloPrefixBytes = 12;  ///< magic and length

/// Something a worker can do beyond this version; unknown ones are skipped.
struct Feature {
  uint16_t id = 0;
  Bytes data;

  friend bool operator==(const Feature&, const Feature&) = default;
};

/// That a session with this worker can go on over another connection (sent_frames.h).
struct Resumption {
  uint32_t grace_ms = 0;          ///< how long it waits for another connection; 0: the session ends with this one
  std::string endpoint = {};      ///< where it accepts connections: there it can be asked whether it lives
  uint64_t peer_incarnation = 0;  ///< of the other side, whose session with this one is to go on; 0: a new session
  uint64_t received = 0;          ///< frames received in the session that is to go on
  uint32_t attempt = 0;           ///< of the side that connects: 1, 2, 3, ...; one that was overtaken is ignored
  uint32_t taken = 0;             ///< the other side's last attempt that this side has accepted; 0: none
  uint32_t session = 1;           ///< number of the session; in a refusal of kind `ended`, of the refuser's current one

  friend bool operator==(const Resumption&, const Resumption&) = default;
};

/// Why a Hello is a refusal: what the other side makes of it.
enum class RefusalKind : uint8_t {
  usage = 0,      ///< it cannot be connected as it is
  timeout = 1,    ///< the group failed: workers did not come in time
  lost = 2,       ///< the group failed: a worker was lost
  try_later = 3,  ///< not now
  ended = 4,      ///< the session to continue has ended here; `Resumption::session` is the number of the current one
};

/// What a worker says of itself.
struct Hello {
  uint16_t min_version = kWireVersion, max_version = kWireVersion;
  WorkerInfo worker = {};
  int32_t world_size = 0;
  std::string group = {};                         ///< the group's id, the same for all its workers
  uint64_t incarnation = 0;                       ///< random, drawn when the worker's agent started
  Limits limits = {};                             ///< what it is willing to receive
  uint64_t request_window = uint64_t{256} << 20;  ///< bytes of requests not yet started that it keeps (flow_control.h)
  Resumption resumption = {};
  DeviceReport devices = {};  ///< how many it has, and where it maps them to on the other's side
  bool plain = false;         ///< over TCP, TLS ends after the hellos if both sides set this
  /// Nobody's session begins: who says it would like to know whether it may join the group that meets here, and whom it
  /// has reached. `group` is empty.
  bool enquiry = false;
  std::string refusal =
      {};  ///< not empty: the connection is refused, and why; of an enquiry: it will not join, and why
  RefusalKind refusal_kind = RefusalKind::usage;
  std::vector<Feature> features = {};

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Throws MessageError if it would exceed kMaxHelloBytes.
Bytes encode(const Hello& hello);

/// How many bytes the Hello that starts with these has altogether; nothing while fewer than kHelloPrefixBytes are
/// there. Throws MessageError for a wrong magic and for a length over kMaxHelloBytes: at most those are ever kept.
std::optional<std::size_t> hello_size(std::span<const std::byte> start);

/// Reads one whole Hello. Throws MessageError.
Hello decode_hello(std::span<const std::byte> bytes);

/// What this side knows before it looks at the other's Hello. Unset fields are not checked.
struct HelloExpectation {
  std::string group = {};
  int32_t world_size = 0;
  std::optional<WorkerInfo> worker = {};  ///< set by the one that connects: whom it meant to reach
};

/// The version both speak. Throws UsageError if there is none.
uint16_t agree_on_version(const Hello& mine, const Hello& theirs);

/// The version both speak. Throws UsageError that names what differs: the refusal, the version ranges, the group, the
/// world size, the rank (out of range, or not the one meant), the name, limits that no worker may have, a device map
/// that does not fit.
uint16_t check_hello(const Hello& mine, const HelloExpectation& expected, const Hello& theirs);

}  // namespace tendril::rpc
