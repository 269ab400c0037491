#include "tendril/tensor/cuda/runtime/index_owner.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "tendril/tensor/cuda/runtime/check.h"
#include "tendril/tensor/cuda/runtime/current.h"
#include "tendril/tensor/cuda/runtime/index_records.h"

namespace tendril::cuda {

namespace {

/// Never destroyed: kernels may still write there when static objects are.
struct Pages {
  std::mutex mutex;
  std::vector<SharedRecord> idle;
};
Pages& pages() {
  static auto& all = *new Pages;
  return all;
}

/// What a call has on one device.
struct Held {
  CallStamp call;
  OwnedRecord owned;
  int device = 0;
  std::vector<Stream> streams;
};

/// A handler may go on after it has answered: then its record would stay for ever. More calls than this are never
/// served at once; the oldest record goes.
constexpr std::size_t kMostHeld = 4096;

struct Calls {
  std::mutex mutex;
  std::list<Held> held;  // the oldest first
  std::multimap<CallStamp, std::list<Held>::iterator> by_call;
  /// Records of calls that have ended, until their kernels have.
  struct Leaving {
    SharedRecord record;
    std::vector<Event> ends;
  };
  std::deque<Leaving> leaving;
  uint64_t last_owner = 0;

  Held* find(const CallStamp& call, int device) {
    for (auto [it, end] = by_call.equal_range(call); it != end; ++it) {
      if (it->second->device == device) return &*it->second;
    }
    return nullptr;
  }
  void drop(std::multimap<CallStamp, std::list<Held>::iterator>::iterator one) {
    Held& old = *one->second;
    Leaving going{old.owned.record, {}};
    for (const Stream& stream : old.streams) going.ends.emplace_back().record(stream);
    leaving.push_back(std::move(going));
    held.erase(one->second);
    by_call.erase(one);
  }
  void collect() {
    for (std::size_t left = leaving.size(); left > 0; --left) {
      Leaving first = std::move(leaving.front());
      leaving.pop_front();
      if (std::all_of(first.ends.begin(), first.ends.end(), [](const Event& end) { return end.done(); })) {
        give_record_back(first.record);
      } else {
        leaving.push_back(std::move(first));
      }
    }
  }
};
Calls& calls() {
  static auto& all = *new Calls;
  return all;
}

std::atomic<CallStamp (*)() noexcept> asked{nullptr};
/// Calls and devices that hold a record: a look at it is all that calls without a device cost.
std::atomic<std::size_t> holding{0};

}  // namespace

void set_call_of_thread(CallStamp (*ask)() noexcept) noexcept { asked.store(ask, std::memory_order_release); }

CallStamp call_of_thread() noexcept {
  const auto ask = asked.load(std::memory_order_acquire);
  return ask ? ask() : CallStamp{};
}

SharedRecord take_record() {
  constexpr std::size_t kAtOnce = 64;
  Pages& all = pages();
  const std::lock_guard lock(all.mutex);
  if (all.idle.empty()) {
    void* host = nullptr;
    void* seen = nullptr;
    TENDRIL_CUDA("index checks", cudaHostAlloc, &host, kAtOnce * sizeof(IndexRecord),
                 cudaHostAllocMapped | cudaHostAllocPortable);
    TENDRIL_CUDA("index checks", cudaHostGetDevicePointer, &seen, host, 0);
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      all.idle.push_back({static_cast<IndexRecord*>(host) + i, static_cast<IndexRecord*>(seen) + i});
    }
  }
  const SharedRecord taken = all.idle.back();
  all.idle.pop_back();
  new (taken.host) IndexRecord{};
  return taken;
}

void give_record_back(SharedRecord record) noexcept {
  const std::lock_guard lock(pages().mutex);
  pages().idle.push_back(record);
}

void throw_noted(const SharedRecord& record, uint64_t owner, int device, bool late) {
  const std::atomic_ref<int> state(record.host->state);
  // Claimed while it is read: no other thread throws it, and no kernel notes another in the middle.
  int complete = IndexRecord::kComplete;
  if (!state.compare_exchange_strong(complete, IndexRecord::kClaimed, std::memory_order_acquire)) return;
  const IndexRecord noted = *record.host;
  state.store(IndexRecord::kEmpty, std::memory_order_release);
  if (noted.owner != owner) return;
  const std::string text = index_error_text(noted.use, noted.value, noted.dim, noted.size);
  if (!late) throw IndexError(text);
  tendril::detail::raise<IndexError>(
      text, " (on cuda:", device,
      ", noticed when its work was waited for; cuda::set_checked(true) throws where it happens)");
}

OwnedRecord record_of_call() {
  const CallStamp call = call_of_thread();
  if (call.server == 0) return {};
  const int device = current_device();
  const Stream stream = Stream::current(device);
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  Held* mine = all.find(call, device);
  if (!mine) {
    all.collect();
    if (all.held.size() >= kMostHeld) {
      all.drop(std::find_if(all.by_call.begin(), all.by_call.end(),
                            [&](const auto& one) { return one.second == all.held.begin(); }));
    }
    all.held.push_back({call, {take_record(), all.last_owner + 1}, device, {}});
    ++all.last_owner;
    all.by_call.emplace(call, std::prev(all.held.end()));
    mine = &all.held.back();
    holding.store(all.held.size(), std::memory_order_release);
  }
  if (std::find(mine->streams.begin(), mine->streams.end(), stream) == mine->streams.end()) {
    mine->streams.push_back(stream);
  }
  return mine->owned;
}

bool has_index_work(const CallStamp& call) noexcept {
  if (call.server == 0 || holding.load(std::memory_order_acquire) == 0) return false;
  const std::lock_guard lock(calls().mutex);
  return calls().by_call.contains(call);
}

std::vector<Event> ends_of_index_work(const CallStamp& call) {
  std::vector<Event> ends;
  if (call.server == 0 || holding.load(std::memory_order_acquire) == 0) return ends;
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  for (auto [it, end] = all.by_call.equal_range(call); it != end; ++it) {
    for (const Stream& stream : it->second->streams) ends.emplace_back().record(stream);
  }
  return ends;
}

void throw_index_errors_of(const CallStamp& call, int device) {
  if (call.server == 0) return throw_index_errors_of_process(device, true);
  if (holding.load(std::memory_order_acquire) == 0) return;
  std::vector<std::pair<OwnedRecord, int>> mine;
  {
    const std::lock_guard lock(calls().mutex);
    for (auto [it, end] = calls().by_call.equal_range(call); it != end; ++it) {
      mine.emplace_back(it->second->owned, it->second->device);
    }
  }
  for (const auto& [one, on] : mine) throw_noted(one.record, one.owner, on, true);
}

void end_index_work(const CallStamp& call) noexcept {
  if (call.server == 0 || holding.load(std::memory_order_acquire) == 0) return;
  Calls& all = calls();
  const std::lock_guard lock(all.mutex);
  try {
    for (auto one = all.by_call.find(call); one != all.by_call.end(); one = all.by_call.find(call)) all.drop(one);
  } catch (...) {  // the device has failed, and writes no more: its records are left where they are
  }
  holding.store(all.held.size(), std::memory_order_release);
}

}  // namespace tendril::cuda
