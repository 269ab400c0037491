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

/// The first exchange of a connection, before any frame: the side that connects sends a Hello, and the other side
/// answers with one. Each side checks the hello it receives before it uses anything else. docs/wire.md describes the
/// format. Nothing here does I/O.
namespace tendril::rpc {

inline constexpr std::size_t kMaxHelloBytes = 4096;
inline constexpr std::size_t kHelloPrefixBytes = 12;  ///< magic and length

/// A capability of a worker beyond this version. Unknown ones are skipped.
struct Feature {
  uint16_t id = 0;
  Bytes data;

  friend bool operator==(const Feature&, const Feature&) = default;
};

/// How a session with this worker can continue over another connection (sent_frames.h).
struct Resumption {
  uint32_t grace_ms = 0;          ///< how long it waits for another connection; 0: the session ends with this one
  std::string endpoint = {};      ///< where it accepts connections, and can be asked whether it is alive
  uint64_t peer_incarnation = 0;  ///< incarnation of the other side in the session to continue; 0: a new session
  uint64_t received = 0;          ///< frames received in the session to continue
  uint32_t attempt = 0;           ///< from the side that connects: 1, 2, 3, ...; an overtaken attempt is ignored
  uint32_t taken = 0;             ///< the other side's last attempt that this side has accepted; 0: none
  uint32_t session = 1;           ///< number of the session; in a refusal of kind `ended`, of the refuser's current one

  friend bool operator==(const Resumption&, const Resumption&) = default;
};

/// Why a Hello is a refusal, which decides how the other side reacts.
enum class RefusalKind : uint8_t {
  usage = 0,      ///< the worker cannot connect with its current settings
  timeout = 1,    ///< the group failed: workers did not join in time
  lost = 2,       ///< the group failed: a worker was lost
  try_later = 3,  ///< a later attempt may succeed
  ended = 4,      ///< the session to continue has ended here; `Resumption::session` is the number of the current one
};

/// A worker's description of itself.
struct Hello {
  uint16_t min_version = kWireVersion, max_version = kWireVersion;
  WorkerInfo worker = {};
  int32_t world_size = 0;
  std::string group = {};                         ///< the group's id, the same for all its workers
  uint64_t incarnation = 0;                       ///< random, drawn when the worker's agent started
  Limits limits = {};                             ///< limits of the messages that it accepts
  uint64_t request_window = uint64_t{256} << 20;  ///< bytes of requests not yet started that it keeps (flow_control.h)
  Resumption resumption = {};
  DeviceReport devices = {};  ///< the number of its devices, and its device map for the other side
  bool plain = false;         ///< over TCP, TLS ends after the hellos if both sides set this
  /// Asks whether the worker may join the group that meets here, and which worker it has reached. No session begins,
  /// and `group` is empty.
  bool enquiry = false;
  std::string refusal = {};  ///< why the connection is refused or, in an enquiry, why it will not join; empty: neither
  RefusalKind refusal_kind = RefusalKind::usage;
  std::vector<Feature> features = {};

  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Throws MessageError if the result would exceed kMaxHelloBytes.
Bytes encode(const Hello& hello);

/// Returns the total size of the Hello that starts with these bytes, or nullopt if there are fewer than
/// kHelloPrefixBytes. Throws MessageError for a wrong magic, and for a size over kMaxHelloBytes: no more is ever kept.
std::optional<std::size_t> hello_size(std::span<const std::byte> start);

/// Reads one complete Hello. Throws MessageError.
Hello decode_hello(std::span<const std::byte> bytes);

/// The values that this side expects in the Hello that it receives. Unset fields are not checked.
struct HelloExpectation {
  std::string group = {};
  int32_t world_size = 0;
  std::optional<WorkerInfo> worker = {};  ///< set by the side that connects: the worker that it meant to reach
};

/// Returns the highest version that both sides support. Throws UsageError if they have none in common.
uint16_t agree_on_version(const Hello& mine, const Hello& theirs);

/// Checks a received Hello, and returns the version to use. Throws UsageError that names the problem: a refusal, no
/// common version, a different group or world size, a rank that is out of range or unexpected, a wrong name, limits
/// below the minimum, or a device map that does not fit.
uint16_t check_hello(const Hello& mine, const HelloExpectation& expected, const Hello& theirs);

}  // namespace tendril::rpc
