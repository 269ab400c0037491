#include "tendril/tensor/cpu/workers.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/detail/signal_mask.h"

namespace tendril::cpu {
namespace {

/// How long a thread looks for what it waits for before it sleeps: about what a sleep and a wake-up cost. Kernels of
/// one step follow each other faster.
constexpr std::chrono::microseconds kLook{20};
/// A piece is taken in up to so many chunks, so that who is done with his own has something to take from others.
constexpr int64_t kChunks = 8;

constinit std::atomic<int> inside_kernels{0};
constinit thread_local bool counted = false;  // among those

struct Job;
/// A participant's part of the range: taken in chunks, by anybody.
struct alignas(64) Piece {
  std::atomic<int64_t> next{0};  // chunk
  int64_t begin = 0, size = 0, chunks = 0;
  Job* job = nullptr;
};

/// One call, on its caller's stack.
struct Job {
  Part part;
  const void* body;
  bool limited;  // by a ThreadLimit of the caller's
  int count;     // of participants
  std::array<Piece, kMostThreads> pieces;
};

/// A piece that was given to a worker; the lowest bit: who has begun, and now the caller waits.
using Given = uintptr_t;
constexpr Given kBegun = 1;
Given given(Piece& piece) { return reinterpret_cast<Given>(&piece); }

/// Never destroyed: a sleeping worker may outlive the program's static objects, and touches nothing else.
struct alignas(64) Worker {
  std::atomic<Given> piece{0};  // 0: free
  std::atomic<uint32_t> rung{0}, left{0};
};
constinit std::array<Worker, kMostThreads> workers;
constinit std::atomic<int> started{0};
constinit std::mutex starting;

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Whether `ready` within a short while.
template <class Ready>
bool look_for(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kLook;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

/// Takes chunks until there are none, of participant number `own`'s piece first, or until `stop()`.
template <class Stop>
void take_chunks(Job& job, int own, const Stop& stop) {
  for (int i = 0; i < job.count; ++i) {
    Piece& piece = job.pieces[static_cast<std::size_t>((own + i) % job.count)];
    while (piece.next.load(std::memory_order_relaxed) < piece.chunks) {
      const int64_t chunk = piece.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= piece.chunks) break;
      job.part(job.body, piece.begin + piece.size * chunk / piece.chunks,
               piece.begin + piece.size * (chunk + 1) / piece.chunks);
      if (stop()) return;
    }
  }
}

/// With a caller more than there was room for a helper leaves, at the end of a chunk. True: it no longer counts.
bool one_too_many() noexcept {
  int number = inside_kernels.load(std::memory_order_relaxed);
  while (number > thread_budget()) {
    if (inside_kernels.compare_exchange_weak(number, number - 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

void help(Job& job, int own) {
  const ThreadLimit nested(job.limited ? 1 : kMostThreads);
  bool left = false;
  take_chunks(job, own, [&] { return left = one_too_many(); });
  if (!left) inside_kernels.fetch_sub(1, std::memory_order_relaxed);
}

[[noreturn]] void serve(int number) {
  pthread_setname_np(pthread_self(), ("kernels/" + std::to_string(number + 1)).c_str());
  counted = true;  // by whoever gives it something to do
  Worker& me = workers[static_cast<std::size_t>(number)];
  for (;;) {
    const uint32_t heard = me.rung.load();
    Given mine = me.piece.load(std::memory_order_acquire);
    if (mine == 0) {
      // No deadline: there is nothing that it should do, and it holds nothing.
      if (!look_for([&] { return me.piece.load(std::memory_order_relaxed) != 0; })) me.rung.wait(heard);
      continue;
    }
    if (!me.piece.compare_exchange_strong(mine, mine | kBegun)) continue;  // the caller has taken it back
    Piece& piece = *reinterpret_cast<Piece*>(mine);
    help(*piece.job, static_cast<int>(&piece - piece.job->pieces.data()));
    me.piece.store(0, std::memory_order_release);  // the job is no more
    me.left.fetch_add(1);
    me.left.notify_all();
  }
}

/// In a child none of the workers is left, nor anybody else inside a kernel.
void forget_others() {
  for (Worker& worker : workers) worker.piece = 0;
  started = 0;
  inside_kernels = counted;
  starting.unlock();
}
const int watching_forks [[maybe_unused]] =
    pthread_atfork([] { starting.lock(); }, [] { starting.unlock(); }, forget_others);

/// Whether worker `number` runs; starts it if nobody else is starting one.
bool is_started(int number) {
  if (number < started.load(std::memory_order_acquire)) return true;
  const std::unique_lock lock(starting, std::try_to_lock);
  if (!lock) return false;
  if (number < started.load()) return true;
  const tendril::detail::SignalMask mask({SIGPROF});  // a profiler samples them too
  bool runs = true;
  try {
    std::thread(serve, number).detach();  // joined by nobody: asleep it keeps no process from ending
  } catch (...) {                         // no more threads, or no memory for one
    runs = false;
  }
  if (runs) started.store(number + 1, std::memory_order_release);
  return runs;
}

/// Gives pieces to the first workers that are free, each time the same to the same; returns how many.
int give_out(Job& job, std::array<Worker*, kMostThreads>& helpers) {
  int count = 0;
  for (int i = 0; count < job.count - 1 && i < kMostThreads && is_started(i); ++i) {
    Worker& worker = workers[static_cast<std::size_t>(i)];
    Given none = 0;
    const Given piece = given(job.pieces[static_cast<std::size_t>(count) + 1]);
    if (!worker.piece.compare_exchange_strong(none, piece)) continue;
    worker.rung.fetch_add(1);
    worker.rung.notify_one();
    helpers[static_cast<std::size_t>(count++)] = &worker;
  }
  return count;
}

/// Takes a piece back from a worker that has not begun; else waits until it has left. No deadline: it is inside the
/// caller's own kernel, which ends, and nobody waits for anything there.
void call_back(Worker& worker, Given piece) {
  Given mine = piece;
  if (worker.piece.compare_exchange_strong(mine, 0)) {
    inside_kernels.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  const auto has_left = [&] { return worker.piece.load(std::memory_order_acquire) != (piece | kBegun); };
  if (look_for(has_left)) return;
  for (;;) {
    const uint32_t seen = worker.left.load();
    if (has_left()) return;
    worker.left.wait(seen);
  }
}

}  // namespace

ThreadShare::ThreadShare(int64_t wanted) noexcept {
  if (wanted < 2) return;
  outermost_ = !counted;
  counted = true;
  int now = inside_kernels.load(std::memory_order_relaxed), others;
  do {
    const int room = thread_budget() - now - outermost_;
    others = static_cast<int>(std::clamp<int64_t>(wanted - 1, 0, std::max(0, std::min(room, kMostThreads - 1))));
  } while (!inside_kernels.compare_exchange_weak(now, now + outermost_ + others, std::memory_order_relaxed));
  others_ = others;
}

ThreadShare::~ThreadShare() {
  if (outermost_) counted = false;
  if (outermost_ || others_ > 0) inside_kernels.fetch_sub(outermost_ + others_, std::memory_order_relaxed);
}

int threads_inside() noexcept { return inside_kernels.load(); }

void run_parts(int64_t parts, int64_t count, int64_t grain, Part part, const void* body) {
  ThreadShare share(parts);
  const int64_t threads = share.threads();
  // Also of a call that nobody helps: what it calls takes num_threads() for its cuts, which must not depend on chance.
  const bool limited = num_threads() < thread_budget();
  const ThreadLimit nested(limited ? 1 : kMostThreads);
  if (threads < 2) return part(body, 0, count);
  took(Path::shared);
  Job job{part, body, limited, static_cast<int>(threads), {}};
  for (int64_t i = 0; i < threads; ++i) {
    Piece& piece = job.pieces[static_cast<std::size_t>(i)];
    piece.begin = count * i / threads;
    piece.size = count * (i + 1) / threads - piece.begin;
    piece.chunks = std::clamp<int64_t>(piece.size / std::max<int64_t>(grain, 1), 1, kChunks);
    piece.job = &job;
  }
  std::array<Worker*, kMostThreads> helpers;
  const int helping = give_out(job, helpers);
  share.pass_on();
  inside_kernels.fetch_sub(job.count - 1 - helping, std::memory_order_relaxed);  // those that could not be had
  take_chunks(job, 0, [] { return false; });
  for (int i = 0; i < helping; ++i) {
    call_back(*helpers[static_cast<std::size_t>(i)], given(job.pieces[static_cast<std::size_t>(i) + 1]));
  }
}

}  // namespace tendril::cpu
