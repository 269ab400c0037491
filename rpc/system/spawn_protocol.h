#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// The protocol between spawn() and the processes that it starts.
///
/// A worker is started with the descriptors below and TENDRIL_SPAWN=<kMark> in its environment. The job descriptor is
/// an anonymous file that all workers read by position: the length of the function's id (u64), the id, and the
/// arguments as a frame (wire.h). The control descriptor is a stream socket. The worker receives the group's key over
/// it (kKeyBytes), then one byte for each request to write its status, and sends one report. The end of the stream, in
/// either direction, means that the other process is gone.
namespace tendril::rpc::detail {

inline constexpr int kJobFd = 3;
inline constexpr int kControlFd = 4;
inline constexpr int kListenerFd = 5;  ///< rank 0 only

inline constexpr std::size_t kKeyBytes = 32;

inline constexpr const char* kMarkVariable = "TENDRIL_SPAWN";
inline constexpr const char* kMark = "1";

/// The first byte of a report. `failed` is followed by the time of the failure (steady clock, nanoseconds, i64) and its
/// text.
enum class Report : char { done = 'D', failed = 'F' };
inline constexpr std::size_t kMaxReport = 64 * 1024;

/// The exit status of a worker whose function threw.
inline constexpr int kFailedExitCode = 70;

}  // namespace tendril::rpc::detail
