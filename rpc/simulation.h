#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tendril/rpc/simulation_event.h"
#include "tendril/rpc/worker.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Runs a distributed program in one thread of this process, in virtual time, with every choice drawn from one seed
/// (docs/simulation.md).
namespace tendril::rpc {

/// The faults that a simulation injects, and how often. Probabilities are 0 to 1.
struct Faults {
  std::chrono::microseconds min_delay{20}, max_delay{200};  ///< range for a segment between two hosts
  double long_delay = 0;     ///< probability that a segment is delayed by up to 200 ms more
  double reset = 0;          ///< probability that a write resets its connection
  double corrupt_byte = 0;   ///< probability that one byte of a segment is changed
  double partial_write = 0;  ///< probability that a write is partial, or arrives in two pieces

  double small_buffer = 0;  ///< probability that a connection accepts at most 16 KiB of unread bytes
  double clock_drift = 0;   ///< probability that a process's clock runs up to 5% too fast or too slow

  /// Mean time between two of the following faults, each of a random kind at a random worker. 0: none of them occur.
  std::chrono::milliseconds interval{0};
  bool kill = false;        ///< ends a process at once
  bool restart = false;     ///< starts half of the ended processes again
  bool lose_host = false;   ///< ends a process without notice to its peers, as a power failure does
  bool pause = false;       ///< pauses a process for up to `longest_outage`
  bool stall = false;       ///< stops one thread for up to `longest_outage`
  bool partition = false;   ///< separates two groups of hosts, in one or both directions, for up to `longest_outage`
  bool cut_pair = false;    ///< separates two hosts, neither of them rank 0's, for up to `longest_outage`
  bool clock_jump = false;  ///< moves a worker's clock forward by up to a second
  /// Makes an allocation with operator new fail in a function that a worker serves, or while its reply is sent.
  /// Programs that define their own operator new cannot use this fault.
  bool allocation_failure = false;
  std::chrono::milliseconds longest_outage{3000};  ///< also the longest time until a restart
  bool include_rank_0 = false;                     ///< rank 0 may be killed or lost as well
  /// The virtual time at which faults stop: cuts are healed and paused processes resume. 0: faults never stop.
  std::chrono::milliseconds until{0};

  static Faults none() { return {}; }  ///< no faults, only normal delays
  static Faults calm();                ///< delays and partial writes, and rare resets
  static Faults harsh();               ///< all kinds of faults
};

/// What to simulate.
struct SimulationOptions {
  int world_size = 2;                     ///< number of workers, 1 to 1024
  uint64_t seed = 0;                      ///< seed of all random choices
  Faults faults = {};                     ///< default: none
  std::chrono::seconds time_limit{3600};  ///< limit on virtual time
  /// Limit on real time for one step, that is, from one wait of a thread to its next. A step that takes longer is
  /// assumed to wait for something that is not simulated, and the process is aborted with a message that names the
  /// thread. 0: no limit.
  std::chrono::seconds longest_step{60};
  bool keep_transcript = false;  ///< fills in SimulationReport::transcript
  /// Number of events to keep in the report. If more occur, those in the middle of the run are left out.
  std::size_t keep_events = 0;
};

/// The result of a simulation.
struct SimulationReport {
  /// Why the simulation ended.
  enum class End {
    done,          ///< every worker's function has ended
    stuck,         ///< deadlock: no thread could run, and no timer was set
    limit_reached  ///< the limit on virtual time, or 50 million steps
  };
  /// The outcome of one worker.
  struct Rank {
    bool returned = false;  ///< whether its function returned, when last started
    bool killed = false;    ///< whether it was killed and not restarted
    std::string error;      ///< message of the exception that its function threw
    int starts = 0;         ///< number of times it was started
  };

  uint64_t seed = 0;                       ///< seed from the options
  End end = End::done;                     ///< why it ended
  std::vector<Rank> ranks;                 ///< by rank
  std::string blocked;                     ///< unless done: a line per thread, with the reason for its wait
  std::chrono::nanoseconds time{0};        ///< virtual time elapsed
  uint64_t steps = 0, segments = 0;        ///< number of scheduler steps; number of network segments sent
  uint64_t digest = 0;                     ///< hash of the transcript: equal for equal seeds and options
  std::string transcript;                  ///< if keep_transcript is set
  std::map<std::string, uint64_t> faults;  ///< number of occurrences of each fault
  std::vector<SimulationEvent> events;     ///< if keep_events is set; sorted by time
  uint64_t events_left_out = 0;            ///< number of events left out in the middle of `events`

  bool all_returned() const;  ///< whether the function of every rank has returned
  std::string text() const;   ///< human-readable summary
  /// Returns an HTML page to step through `events`. It needs no other file and no network.
  std::string page() const;
};

namespace detail {
SimulationReport simulate(const SimulationOptions& options, const std::function<void(WorkerId rank)>& run);
}

/// Runs `F(rank, arguments...)` for every rank in the calling thread. No other thread of the process may use
/// tendril::rpc meanwhile. Throws UsageError if an option is out of range, if a simulation is already running, or if
/// this process has a worker of a real group.
template <auto F, class... Args>
SimulationReport simulate(const SimulationOptions& options, const Args&... arguments) {
  return detail::simulate(options, [&](WorkerId rank) { (void)F(rank, arguments...); });
}

/// Returns the virtual time since the simulation began. It is the same for all workers, whereas each worker's Clock
/// starts at a different time. Throws UsageError outside a simulation.
std::chrono::nanoseconds simulated_time();

}  // namespace tendril::rpc

TENDRIL_API_END
