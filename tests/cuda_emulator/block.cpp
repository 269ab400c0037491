#include "cuda_emulator/block.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cuda_emulator/sanitizer.h"
#include "cuda_emulator/settings.h"
#include "cuda_emulator/shared_memory.h"

/// The threads of the running block. A thread runs on a fibre from its start until it meets others (a barrier, a
/// shuffle) or ends; a fibre whose thread ended goes on with the next thread that has not started.
namespace cuda_emulator {
namespace {

using boost::context::fiber;

enum class State : std::uint8_t { kNew, kReady, kRunning, kAtBarrier, kInWarp, kExited };

/// Where it goes on; empty while it runs.
struct Fibre {
  fiber here;
  Stack stack{};
};

struct Thread {
  State state = State::kNew;
  unsigned mask = 0, source = 0;
  std::uint64_t value = 0, result = 0;
  detail::Site site{};
  Fibre* fibre = nullptr;
};

constexpr unsigned kNone = ~0u;
constexpr std::size_t kStack = 256 * 1024;

/// Lanes as bits.
struct Warp {
  unsigned live = 0, waiting = 0;
};

/// One block runs at a time, whichever host thread holds the world's lock; so this is not thread-local.
struct Block {
  const void *kernel = nullptr, *last = nullptr;
  const std::function<void()>* body = nullptr;
  std::vector<uint3> indices;  // of threads; the same for all blocks of a grid
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> ready;
  unsigned size = 0, live = 0, waiting = 0;
  detail::Site barrier{};  // where those who wait are
  unsigned current = kNone;
  std::vector<std::unique_ptr<Fibre>> fibres;
  std::vector<Fibre*> idle;
  Fibre host;  // the host thread that runs the block
  Fibre *running = &host, *before = nullptr;
  Shuffler order;
};

/// Never destroyed: a library's last objects may still wait for their streams when the process ends.
Block& block = *new Block;

std::string name(unsigned thread) {
  const uint3& i = block.indices[thread];
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

bool same(const detail::Site& a, const detail::Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

std::string describe(const detail::Site& site) {
  return std::string(site.what) + " at " + site.file + ":" + std::to_string(site.line);
}

std::string where_is(const Thread& thread) {
  switch (thread.state) {
    case State::kNew:
      return "has not started";
    case State::kReady:
      return "is about to go on";
    case State::kRunning:
      return "runs";
    case State::kExited:
      return "has ended";
    case State::kAtBarrier:
      return "waits in " + describe(thread.site);
    case State::kInWarp: {
      char mask[16];
      std::snprintf(mask, sizeof mask, "0x%08x", thread.mask);
      return "waits in " + describe(thread.site) + " for the lanes " + mask;
    }
  }
  return "?";
}

/// Says what all threads do, neighbours together, and ends the process: a device would hang or compute nonsense.
[[noreturn]] void fail(const std::string& reason) {
  const uint3& b = detail::block_index;
  std::fprintf(stderr, "cuda_emulator: %s\n  kernel %s, block (%u, %u, %u) of (%u, %u, %u), %u threads:\n",
               reason.c_str(), name_of(block.kernel).c_str(), b.x, b.y, b.z, detail::grid_size.x, detail::grid_size.y,
               detail::grid_size.z, block.size);
  for (unsigned first = 0; first < block.size;) {
    const std::string what = where_is(block.threads[first]);
    unsigned last = first;
    while (last + 1 < block.size && where_is(block.threads[last + 1]) == what) ++last;
    if (first == last) {
      std::fprintf(stderr, "    thread %s %s\n", name(first).c_str(), what.c_str());
    } else {
      std::fprintf(stderr, "    threads %s to %s: each %s\n", name(first).c_str(), name(last).c_str(), what.c_str());
    }
    first = last + 1;
  }
  std::fflush(stderr);
  std::abort();
}

void set_ready(unsigned thread) {
  block.threads[thread].state = State::kReady;
  block.ready.push_back(thread);
}

unsigned pick() {
  const std::size_t i = block.order.below(block.ready.size());
  const unsigned thread = block.ready[i];
  block.ready[i] = block.ready.back();
  block.ready.pop_back();
  return thread;
}

void make_current(unsigned thread) {
  block.current = thread;
  block.threads[thread].state = State::kRunning;
  detail::thread_index = block.indices[thread];
}

fiber live(fiber&& caller);

/// Stops here and goes on there, until somebody switches back.
void switch_to(Fibre* next) {
  Fibre* const self = block.running;
  block.before = self;
  block.running = next;
  void* const own = before_switch(next->stack);
  fiber caller = std::move(next->here).resume();
  after_switch(own, block.before->stack);
  block.before->here = std::move(caller);
}

/// The fibre to run a picked thread on; a new thread becomes the current one.
Fibre* fibre_of(unsigned thread) {
  if (block.threads[thread].state != State::kNew) return block.threads[thread].fibre;
  make_current(thread);
  if (!block.idle.empty()) {
    Fibre* const fibre = block.idle.back();
    block.idle.pop_back();
    return fibre;
  }
  // Stacks that all began at the same place in a page would share a few lines of the cache.
  const std::size_t skipped = block.fibres.size() % 64 * 448;
  boost::context::protected_fixedsize_stack memory(kStack);
  const boost::context::stack_context stack = memory.allocate();
  const boost::context::preallocated usable(static_cast<char*>(stack.sp) - skipped, stack.size - skipped, stack);
  block.fibres.push_back(std::make_unique<Fibre>());
  block.fibres.back()->here = fiber(std::allocator_arg, usable, memory, live);
  block.fibres.back()->stack = {static_cast<char*>(stack.sp) - stack.size, stack.size - skipped};
  return block.fibres.back().get();
}

/// Lets others run until somebody makes this thread ready.
void wait() {
  const unsigned self = block.current;
  block.threads[self].fibre = block.running;
  if (block.ready.empty()) fail("threads wait for others that never come: a divergent barrier or a wrong mask");
  switch_to(fibre_of(pick()));
  make_current(self);
}

void finish_barrier(unsigned last) {
  block.waiting = 0;
  for (unsigned i = 0; i < block.size; ++i) {
    Thread& thread = block.threads[i];
    if (thread.state != State::kAtBarrier) continue;
    if (i == last) {
      thread.state = State::kRunning;
    } else {
      set_ready(i);
    }
  }
}

std::uint64_t warp_result(unsigned warp, unsigned lane, unsigned lanes) {
  const Thread* const threads = &block.threads[warp * 32];
  const Thread& own = threads[lane];
  if (lanes >> own.source & 1u) return threads[own.source].value;
  fail("thread " + name(warp * 32 + lane) + " reads lane " + std::to_string(own.source) + " in " + describe(own.site) +
       ", which has ended, is not in the block or is not in the mask");
}

/// Lets the lanes of `thread`'s meeting go when all of them are there.
bool try_to_meet(unsigned thread, unsigned last) {
  const unsigned warp = thread / 32;
  const Thread& own = block.threads[thread];
  const unsigned lanes = own.mask & block.warps[warp].live;
  if ((block.warps[warp].waiting & lanes) != lanes) return false;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(lanes >> lane & 1u)) continue;
    const Thread& other = block.threads[warp * 32 + lane];
    if (other.mask != own.mask || !same(other.site, own.site)) return false;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (lanes >> lane & 1u) block.threads[warp * 32 + lane].result = warp_result(warp, lane, lanes);
  }
  block.warps[warp].waiting &= ~lanes;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned other = warp * 32 + lane;
    if (!(lanes >> lane & 1u)) continue;
    if (other == last) {
      block.threads[other].state = State::kRunning;
    } else {
      set_ready(other);
    }
  }
  return true;
}

/// Those who wait for a thread that ended wait for the others only.
void on_exit(unsigned thread) {
  Warp& warp = block.warps[thread / 32];
  block.threads[thread].state = State::kExited;
  warp.live &= ~(1u << thread % 32);
  --block.live;
  if (block.waiting > 0 && block.waiting == block.live) finish_barrier(kNone);
  for (unsigned waiting = warp.waiting; waiting != 0; waiting &= waiting - 1) {
    const unsigned other = thread / 32 * 32 + static_cast<unsigned>(std::countr_zero(waiting));
    if (block.threads[other].state == State::kInWarp && (block.threads[other].mask >> thread % 32 & 1u)) {
      try_to_meet(other, kNone);
    }
  }
}

/// A fibre's life: threads, one after another, for as long as the next one has not started.
fiber live(fiber&& caller) {
  after_switch(nullptr, block.before->stack);
  block.before->here = std::move(caller);
  for (;;) {
    Fibre* next = nullptr;
    while (!next) {
      (*block.body)();
      on_exit(block.current);
      if (block.live == 0) {
        next = &block.host;
      } else if (block.ready.empty()) {
        fail("threads wait for others that never come: a divergent barrier or a wrong mask");
      } else if (const unsigned thread = pick(); block.threads[thread].state == State::kNew) {
        make_current(thread);
      } else {
        next = block.threads[thread].fibre;
      }
    }
    block.idle.push_back(block.running);
    switch_to(next);
  }
}

void run_block() {
  block.live = block.size;
  block.waiting = 0;
  block.threads.assign(block.size, Thread{});
  block.warps.assign((block.size + 31) / 32, Warp{~0u, 0});
  if (block.size % 32 != 0) block.warps.back().live = (1u << block.size % 32) - 1;
  block.ready.resize(block.size);
  std::iota(block.ready.begin(), block.ready.end(), 0u);
  switch_to(fibre_of(pick()));
}

}  // namespace

uint3 detail::thread_index, detail::block_index;
dim3 detail::block_size, detail::grid_size;

unsigned detail::lane() { return block.current % 32; }

void detail::block_barrier(Site site) {
  const unsigned self = block.current;
  Thread& thread = block.threads[self];
  thread.state = State::kAtBarrier;
  thread.site = site;
  if (block.waiting++ == 0) block.barrier = site;
  if (!same(site, block.barrier)) fail("the threads of a block wait in different barriers");
  if (block.waiting == block.live) {
    finish_barrier(self);
  } else {
    wait();
  }
}

std::uint64_t detail::warp_shuffle(unsigned mask, std::uint64_t value, unsigned source, Site site) {
  const unsigned self = block.current;
  Thread& thread = block.threads[self];
  thread.state = State::kInWarp;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  thread.site = site;
  if (!(mask >> (self % 32) & 1u)) fail("thread " + name(self) + " is not in the mask of its own " + describe(site));
  block.warps[self / 32].waiting |= 1u << self % 32;
  if (!try_to_meet(self, self)) wait();
  return thread.result;
}

std::string running() {
  if (block.kernel == nullptr) return {};
  const uint3& b = detail::block_index;
  return "kernel " + name_of(block.kernel) + ", block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " +
         std::to_string(b.z) + "), thread " + name(block.current);
}

std::string last_run() { return block.last == nullptr ? "nothing" : name_of(block.last); }

void run_grid(const void* kernel, dim3 grid, dim3 threads, unsigned shared, const std::function<void()>& thread) {
  SharedMemory& memory = shared_memory_of(kernel);
  block.kernel = block.last = kernel;
  detail::grid_size = grid;
  detail::block_size = threads;
  block.size = threads.x * threads.y * threads.z;
  block.body = &thread;
  block.indices.clear();
  for (unsigned z = 0; z < threads.z; ++z) {
    for (unsigned y = 0; y < threads.y; ++y) {
      for (unsigned x = 0; x < threads.x; ++x) block.indices.push_back({x, y, z});
    }
  }
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  // Every block once, in an order that is no kernel's business.
  std::uint64_t step = 1 + block.order.below(blocks);
  while (std::gcd(step, blocks) != 1) ++step;
  std::uint64_t at = block.order.below(blocks);
  for (std::uint64_t i = 0; i < blocks; ++i, at = (at + step) % blocks) {
    detail::block_index = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                           static_cast<unsigned>(at / grid.x / grid.y)};
    memory.begin_block(shared);
    run_block();
    memory.end_block();
  }
  block.kernel = nullptr;
}

}  // namespace cuda_emulator
