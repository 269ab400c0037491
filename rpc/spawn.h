#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/shared_key.h"
#include "tendril/rpc/wire/message.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::rpc {

/// A worker started by spawn() failed.
class SpawnError : public RpcError {
 public:
  SpawnError(const std::string& message, int rank) : RpcError(message), rank_(rank) {}
  int rank() const noexcept { return rank_; }  ///< the rank of the worker that failed first

 private:
  int rank_;
};

/// Options of spawn().
struct SpawnOptions {
  int world_size = 1;                     ///< number of workers, 1 to 4096
  std::chrono::milliseconds grace{2000};  ///< time from SIGTERM to SIGKILL when workers are ended
  std::chrono::milliseconds timeout{0};   ///< time limit for all workers; 0 = none
};

/// Describes a worker to itself, if spawn() started it. Libraries find the same information in the environment: RANK,
/// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and OMP_NUM_THREADS if it was not already set.
struct SpawnContext {
  int rank = 0;              ///< rank among the workers of this spawn()
  int world_size = 1;        ///< number of workers
  uint16_t master_port = 0;  ///< port on 127.0.0.1, already listening, so that no other program can take it
  int num_threads = 1;       ///< this worker's share of the cores
  int listener = -1;   ///< rank 0: descriptor that listens on master_port, open until the process ends; others: -1
  SharedKey key = {};  ///< random, the same for all workers of one spawn()

  /// Returns the context, or null in a process that spawn() did not start.
  static const SpawnContext* current() noexcept;
};

/// Must be the first line of main in a program that calls spawn(). In a process that spawn() started, it runs the
/// spawned function and exits. In other processes, it returns at once and does not change argv.
void worker_main(int argc, char** argv);

namespace detail {

using SpawnEntry = int (*)(int rank, Message& arguments);

bool register_spawn_entry(const char* id, SpawnEntry entry);
void spawn(const char* id, Message arguments, const SpawnOptions& options);

template <class R, class... P>
std::tuple<std::decay_t<P>...> spawn_arguments(R (*)(int, P...));

template <class Values>
Message message_of(const Values& values) {
  Message message;
  OutputArchive archive(message);
  std::apply([&](const auto&... value) { ((archive << value), ...); }, values);
  return message;
}

/// A function that can be spawned. Instantiating this template registers the function, both in this process and in
/// processes that re-execute the program.
template <auto F>
struct SpawnTarget {
  static_assert(
      requires { spawn_arguments(F); }, "expected a function void (int rank, ...) or int (int rank, ...)");
  using Arguments = decltype(spawn_arguments(F));

  static int run(int rank, Message& message) {
    Arguments arguments;
    InputArchive archive(message, "rpc::spawn");
    std::apply([&](auto&... values) { ((archive >> values), ...); }, arguments);
    archive.finish();
    return std::apply(
        [&](auto&... values) -> int {
          if constexpr (std::is_void_v<decltype(F(rank, values...))>) {
            F(rank, values...);
            return 0;
          } else {
            return F(rank, values...);
          }
        },
        arguments);
  }

  static inline const bool registered = register_spawn_entry(typeid(SpawnTarget).name(), &run);
};

}  // namespace detail

/// Runs `F(rank, arguments...)` for every rank, each in its own process on this host, and waits until all have returned
/// (at most options.timeout). F is a function `void (int, P...)` or `int (int, P...)`; a non-zero result is a failure.
/// The arguments are serialized as for a call.
///
/// If a worker fails (an exception, a signal, an exit before the function returned), the others are ended, and
/// SpawnError names its rank and the reason. SIGINT, SIGTERM and SIGHUP end all workers (with SIGTERM, and SIGKILL
/// after options.grace) and then have the effect that they would have without spawn(). If the program handles the
/// signal and the handler returns, spawn() returns if every worker has returned from F, and throws RpcError otherwise.
///
/// The workers end when this process ends, for whatever reason. They inherit the environment and standard input, output
/// and error, but no other descriptor. spawn() may be called repeatedly. Throws UsageError if main did not begin with
/// worker_main.
template <auto F, class... Args>
void spawn(const SpawnOptions& options, Args&&... arguments) {
  using Target = detail::SpawnTarget<F>;
  static_assert(sizeof...(Args) == std::tuple_size_v<typename Target::Arguments>,
                "rpc::spawn: the function takes (int rank, arguments...)");
  (void)Target::registered;
  const typename Target::Arguments values(std::forward<Args>(arguments)...);
  detail::spawn(typeid(Target).name(), detail::message_of(values), options);
}

/// Does the same with default options.
template <auto F, class... Args>
void spawn(int world_size, Args&&... arguments) {
  spawn<F>(SpawnOptions{.world_size = world_size}, std::forward<Args>(arguments)...);
}

}  // namespace tendril::rpc

TENDRIL_API_END
