#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tendril/tensor/cuda/math_mode.h"     // IWYU pragma: export
#include "tendril/tensor/cuda/memory_stats.h"  // IWYU pragma: export
#include "tendril/tensor/device.h"
#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// What a program may say to CUDA devices beyond putting tensors on them. In a library without CUDA, and on a machine
/// without a device, everything that needs one throws Error and says why there is none.
///
/// Work is asynchronous and goes to the calling thread's current stream. Results are waited for where their values are
/// read (`item`, `to(kCPU)`, printing).
namespace tendril::cuda {

bool is_available() noexcept;  ///< device_count(DeviceType::cuda) > 0
/// Why `device_count` is 0: "this library was built without CUDA", "the driver (CUDA 12.2) is older than ...". Empty
/// where there is a device.
std::string why_unavailable();
std::string device_name(int device = 0);  ///< "NVIDIA H200"
/// The device for this process among those of its host: the local rank's, round and round, as `rpc::launch` and
/// `rpc::spawn` were told it or gave it; else the first. Throws Error without a device.
Device local_device();
/// Says which local rank this process has, for programs that rpc does not launch. Negative: as 0.
void set_local_rank(int rank) noexcept;
/// Waits for everything that was issued to the device. Throws what failed since the last wait; of indices out of range
/// (set_checked), here and in the other waits, those of the call that this thread serves or, outside of calls, of none.
void synchronize(int device = 0);

// ---- operations by index, for the whole process

/// An index out of range is an IndexError where the device is next waited for, as late as that may be. With `on`,
/// operations by index look at all indices first, wait, and throw before anything is written: slow, for finding out
/// where. The environment variable TENDRIL_CUDA_CHECKED=1 says so from the start.
void set_checked(bool on) noexcept;
/// As set_checked left it.
bool checked() noexcept;
/// `index_add` and `scatter_add` (and so the gradients of `embedding`, `gather`, `index_select`) add to one element in
/// the order in which threads come: sums of floating numbers differ in their last bits from run to run. With `on`, they
/// add in the order of the indices, bit for bit as the CPU does; slower where many indices go into few columns.
/// Everything else of this library's own kernels is deterministic without. LSTM layers are then not given to cuDNN. Of
/// cuDNN, only those algorithms for convolutions are then used that say they are.
void set_deterministic(bool on) noexcept;
/// As set_deterministic left it.
bool deterministic() noexcept;

// ---- order

class Event;

/// A queue of work of one device: what is in it runs in the order of issue, beside other streams. Copies share the
/// queue; when the last of them goes, a later Stream may take it over, behind what it still has to do. Thread-safe.
class Stream {
 public:
  /// A queue that no other Stream has and that does not wait for the default stream. `priority`: lower numbers go
  /// first, 0 is usual.
  explicit Stream(int device = 0, int priority = 0);
  static Stream default_of(int device = 0);  ///< the one that work goes to unless a StreamGuard says otherwise
  static Stream current(int device = 0);     ///< this thread's

  /// The device's number.
  int device() const noexcept { return device_; }
  bool done() const;         ///< nothing is left in it
  void synchronize() const;  ///< waits until nothing is
  /// What is issued from now on comes after `event`; does not block the caller. Error while a Graph records the stream.
  void wait(const Event& event) const;
  void* native() const noexcept { return queue_.get(); }  ///< cudaStream_t
  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  friend class Graph;
  Stream(int device, std::shared_ptr<void> queue) noexcept : device_(device), queue_(std::move(queue)) {}
  /// One that serves graphs alone when it goes: what they made may still be read when its memory is free in it.
  static Stream of_graph(int device);
  int device_;
  std::shared_ptr<void> queue_;
};

/// A point in a stream. Not thread-safe: one thread at a time.
class Event {
 public:
  /// `timing`: it can be used with `milliseconds_since`, and costs more: also whoever waits for it keeps a processor
  /// busy, while one without timing lets the thread sleep.
  explicit Event(bool timing = false) noexcept : timing_(timing) {}
  Event(Event&&) noexcept = default;
  Event& operator=(Event&&) noexcept = default;

  /// After what `stream` holds now; again: at a new place. Error while a Graph records the stream.
  void record(const Stream& stream);
  void record();             ///< in the thread's current stream of device 0
  bool done() const;         ///< true for one that was never recorded
  void synchronize() const;  ///< waits for it; throws as cuda::synchronize does
  void reach() const;        ///< waits for it, and leaves an index out of range to others to throw
  /// Between two timing events of one device that are done.
  double milliseconds_since(const Event& start) const;
  void* native() const noexcept { return event_.get(); }  ///< cudaEvent_t; null before the first record

 private:
  bool timing_;
  int device_ = 0;  ///< it was recorded on
  std::shared_ptr<void> event_;
};

/// While it lives, this thread's work on the stream's device goes to `stream`. Guards nest.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  void* before_;
};

/// While it lives, this thread's work goes to the devices' default streams: behind what the thread's own (StreamGuard)
/// hold when it begins, and before what they are given once it has ended. For work that several threads share.
class DefaultStreams {
 public:
  DefaultStreams();
  ~DefaultStreams();
  DefaultStreams(const DefaultStreams&) = delete;
  DefaultStreams& operator=(const DefaultStreams&) = delete;

 private:
  std::vector<Stream> own_;
};

/// Tells the allocator that `stream` uses x's memory up to now, so that it is not handed out again before `stream` has
/// come so far. Needed for tensors that are used on another stream than the one they were made on. No-op on the CPU.
void record_stream(const Tensor& x, const Stream& stream);

/// Work of one device that is recorded once and then issued as a whole, such as a training step: it costs the host one
/// call, however many kernels it has. What was made while it was recorded (a loss, gradients) is written anew by each
/// replay; other inputs are tensors of the device that the caller writes before one (`copy_`), and that stay, as the
/// parameters do; of a tensor of the CPU that joins one of the device, the number of when it was recorded is taken.
/// Each replay is the next step: random numbers (dropout, `normal_`) are the next of their generators, which it
/// advances, and an optimizer's step is its next one, by the rate that is set by then; all of it is what the same steps
/// would have done one by one. A GradScaler scales by its scale of then. Not thread-safe; may outlive nothing that it
/// uses: inputs, optimizers, generators, scalers. What it made is read on the stream that replays it; on another,
/// events put the reader behind the replay, and the next replay behind the reader.
class Graph {
 public:
  explicit Graph(int device = 0);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();  ///< waits for its replays

  /// Calls `step` with work of this thread going to a stream of the graph's own; none of it happens before a replay.
  /// Run the step once as usual before: libraries get ready then. Throws what `step` throws, and Error where it does
  /// what cannot be replayed: reading a value or copying between the host (or devices) and the device, an optimizer's
  /// first step, one that is not of kernels of ours alone, running averages of parameters, a GradScaler's and a
  /// schedule's steps, other streams' work; nothing is recorded then. Memory that was taken meanwhile stays the
  /// graph's. Not within a call of rpc.
  void capture(const std::function<void()>& step);
  /// Issues what was recorded, in order with the thread's current stream. Does not wait. Throws Error before `capture`,
  /// and where an optimizer would step in another way than was recorded (options that need other state, or parameters
  /// whose step counts have come to differ): nothing is issued then, but what comes before it in the step has drawn its
  /// numbers and counted its steps. A graph that looks at indices (embedding, gather, classes of a cross entropy) is
  /// not replayed within a call of rpc, which would not be told of one that is out of range.
  void replay() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- memory

/// What the allocator of this device holds and held.
MemoryStats memory_stats(int device = 0);
/// The largest use so far is forgotten.
void reset_peak_memory(int device = 0);
/// Gives memory that is cached and unused back to the driver. The environment variable TENDRIL_CUDA_CACHE=0 turns
/// caching off, which is slow, but lets compute-sanitizer see the ends of blocks.
void empty_cache(int device = 0);

/// Page-locked host memory: a device copies to and from it without the CPU and beside kernels. Blocks are kept and
/// reused; one whose copies (`copy_async`, `Tensor::to`, `copy_`) are still under way when it is dropped is reused when
/// they are done, whichever streams they are on.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();  // NOLINT(performance-trivially-destructible): only where there is no CUDA

  /// Its first byte.
  std::byte* data() const noexcept { return data_; }
  /// How many bytes.
  std::size_t bytes() const noexcept { return bytes_; }
  /// `stream` reads or writes it up to now, by other means than this library's copies.
  void used_by(const Stream& stream);

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// An uninitialised CPU tensor in page-locked memory: copies between it and a device may be asynchronous
/// (`non_blocking`).
Tensor pinned_empty(const Dims& sizes, DType dtype = kFloat32);

/// Copies bytes between host and devices on the current stream of the device involved (of `from`'s if both are).
/// Returns at once where host memory is pinned, which must stay until the stream has come so far; a block of this
/// library's is seen to. Ordinary host memory is waited for. Host to host is a memcpy.
void copy_async(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

/// Copies to a device that run beside its computing, on a stream of their own: `push` the next batch, then compute with
/// the one that `pop` gives. From page-locked memory (`pinned_empty`, a DataLoader's `pin_memory`) that overlaps; other
/// memory is copied before `push` returns. One thread at a time.
///
///     for (auto& [images, labels] : loader) {
///       ahead.push({images, labels});
///       if (ahead.size() == 2) train(ahead.pop());
///     }
///     while (ahead.size() > 0) train(ahead.pop());
class CopyAhead {
 public:
  explicit CopyAhead(int device = 0);

  /// Issues copies of `tensors` of the CPU, which may be dropped at once, and does not wait for what the device
  /// computes. Throws Error for a tensor that is undefined or on a device; nothing is queued then.
  void push(const std::vector<Tensor>& tensors);
  /// The copies of the oldest `push`, for work on the thread's current stream, which waits for them. Throws Error
  /// without one.
  std::vector<Tensor> pop();
  std::size_t size() const noexcept { return queued_.size(); }  ///< pushed and not popped

 private:
  struct Batch {
    std::vector<Tensor> tensors;
    Event copied;
  };
  Stream stream_;
  std::deque<Batch> queued_;
};

}  // namespace tendril::cuda

TENDRIL_API_END
