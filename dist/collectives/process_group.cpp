#include "tendril/dist/collectives/process_group.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "tendril/autograd/grad_mode.h"
#include "tendril/dist/collectives/detail/carrier.h"
#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/dist/collectives/detail/hub.h"
#include "tendril/dist/collectives/detail/mpi.h"
#include "tendril/dist/collectives/detail/nccl.h"
#include "tendril/dist/collectives/detail/operation.h"
#include "tendril/dist/collectives/detail/queue.h"
#include "tendril/dist/collectives/detail/ring.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/raw.h"

namespace tendril::dist {

namespace detail {

namespace {

rpc::Clock::time_point deadline_of(std::chrono::milliseconds timeout) {
  return timeout.count() == 0 ? rpc::Clock::time_point::max() : rpc::deadline_after(timeout);
}

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
  }
  return "?";
}

/// Returns, for example, "all_reduce(sum, by rank) of float32 [2, 3]". Members compare these texts.
template <class... Parts>
std::string describe(const Tensor& x, std::size_t chunk_bytes, const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());  // other members may have other locales
  (text << ... << parts);
  text << " of " << x.dtype() << " " << x.sizes();
  if (chunk_bytes != 0) text << " in chunks of " << chunk_bytes << " bytes";
  return text.str();
}

void check_tensor(const char* op, const Tensor& x) { TENDRIL_CHECK(x.defined(), op, ": x is an undefined tensor"); }

void check_changeable(const char* op, const Tensor& x) {
  check_tensor(op, x);
  TENDRIL_CHECK_AS(
      AutogradError, !(tendril::autograd::grad_enabled() && x.requires_grad()), op,
      ": x requires a gradient, but would be changed in place without being recorded; call this under NoGrad");
}

void check_reducible(const char* op, const Tensor& x, ReduceOp reduce) {
  TENDRIL_CHECK_AS(DTypeError, x.dtype() != kBool, op, ": x has dtype bool, expected numbers");
  TENDRIL_CHECK_AS(DTypeError, reduce != ReduceOp::average || is_floating(x.dtype()), op,
                   ": the average of x of dtype ", x.dtype(), ", expected a floating dtype");
}

void check_options(const char* op, const CollectiveOptions& options) {
  TENDRIL_CHECK_AS(rpc::UsageError, options.timeout.count() >= 0, op, ": timeout must not be negative, got ",
                   options.timeout.count(), " ms");
}

/// Calls reduce(x). Averages of float16 are computed in float32, because a sum may exceed 65504 although the average
/// does not.
template <class F>
void reduce_wide(ReduceOp op, const Tensor& x, const F& reduce) {
  if (op != ReduceOp::average || x.dtype() != kFloat16) return reduce(x);
  const Tensor wide = raw::cast(x, kFloat32);
  reduce(wide);
  raw::copy_(x, wide);
}

Combine combination(ReduceOp op, int size) {
  switch (op) {
    case ReduceOp::max:
      return {[](const Tensor& into, const Tensor& part) { raw::binary_(Binary::maximum, into, part); }};
    case ReduceOp::min:
      return {[](const Tensor& into, const Tensor& part) { raw::binary_(Binary::minimum, into, part); }};
    default:
      break;
  }
  Combine combine{[](const Tensor& into, const Tensor& part) { raw::binary_(Binary::add, into, part); }};
  if (op == ReduceOp::average) {
    // The inverse of a power of two is exact, so the product has the same bits as the quotient at half the cost.
    const bool exact = (size & (size - 1)) == 0;
    combine.finish = [size, exact](const Tensor& whole) {
      raw::binary_(exact ? Binary::mul : Binary::div, whole, exact ? Scalar(1.0 / size) : Scalar(size));
    };
  }
  return combine;
}

/// Returns the number of x's elements per message. Each message wakes threads on both sides, so large messages cost
/// less per byte; but a member waits longer for the first chunk of a segment.
int64_t chunk_elements(const Tensor& x, std::size_t chunk_bytes, int size) {
  constexpr std::size_t kSmallestChunk = std::size_t{1} << 20, kLargestChunk = std::size_t{4} << 20, kOfSegment = 16;
  const std::size_t element = size_of(x.dtype());
  if (chunk_bytes == 0) {
    const std::size_t segment = static_cast<std::size_t>(x.numel()) * element / static_cast<std::size_t>(size);
    chunk_bytes = std::clamp(segment / kOfSegment, kSmallestChunk, kLargestChunk);
  }
  const auto all = static_cast<std::size_t>(std::max<int64_t>(x.numel(), 1));
  return static_cast<int64_t>(std::clamp<std::size_t>(chunk_bytes / element, 1, all));
}

/// Returns the library to use for x; null for the built-in algorithms.
CollectiveBackend* backend_for(const std::unique_ptr<CollectiveBackend>& carrier, const Tensor& x, bool reduces,
                               bool deterministic) {
  return carrier && !deterministic && (reduces ? carrier->reduces(x) : carrier->moves(x)) ? carrier.get() : nullptr;
}

Tensor flat_of(const CollectiveBackend* carrier, const Tensor& x) {
  return carrier ? carrier->flat(x) : flat_on_cpu(x);
}

/// Names the algorithm, for the texts that members compare.
std::string backend_text(const CollectiveBackend* carrier, bool deterministic = false) {
  return deterministic ? ", by rank" : carrier ? std::string(", by ") + carrier->name() : "";
}

/// Lets `change` overwrite x's elements, as a flat tensor on the carrier's device. Increments x's version before x
/// changes, because a failure may leave it partly changed.
template <class F>
void change_in_place(const CollectiveBackend* carrier, const Tensor& x, const F& change) {
  const Tensor flat = flat_of(carrier, x);
  const bool is_a_copy = flat.storage() != x.storage();
  if (is_a_copy) change(flat);
  x.storage()->bump_version();
  if (is_a_copy) return raw::copy_(x, raw::reshape(flat, x.sizes()));
  change(flat);
}

void reduce_in_place(Channel& channel, CollectiveBackend* carrier, std::size_t chunk_bytes, const Tensor& x,
                     ReduceOp op, bool deterministic, rpc::Clock::time_point deadline) {
  const std::string what =
      describe(x, chunk_bytes, "all_reduce(", name_of(op), backend_text(carrier, deterministic), ")");
  if (channel.size() == 1) return;
  const auto reduce = [&](const Tensor& flat) {
    if (carrier) return carrier->all_reduce(channel, flat, op);
    reduce_wide(op, flat, [&](const Tensor& wide) {
      (deterministic ? chain_all_reduce : ring_all_reduce)(channel, wide, combination(op, channel.size()),
                                                           chunk_elements(wide, chunk_bytes, channel.size()));
    });
  };
  in_operation(channel, what, deadline, [&] { change_in_place(carrier, x, reduce); });
}

/// Wraps work on the CUDA tensor x for another thread. The work runs on a new stream, after what this thread has issued
/// so far and concurrently with later work. The device has completed it when the wrapper returns.
std::function<void()> on_a_stream(const Tensor& x, std::function<void()> work) {
  const int device = x.device().index;
  const auto so_far = std::make_shared<cuda::Event>();
  so_far->record(cuda::Stream::current(device));
  return [x, device, so_far, work = std::move(work)] {
    const cuda::Stream stream(device);
    stream.wait(*so_far);
    cuda::record_stream(x, stream);
    const cuda::StreamGuard guard(stream);
    work();
    cuda::Event done;  // lets the thread sleep, unlike waiting for the stream
    done.record(stream);
    done.synchronize();
  };
}

std::shared_ptr<Channel> open_channel(rpc::Agent* given, const std::vector<std::string>& workers,
                                      const ProcessGroup::Options& options) {
  const std::shared_ptr<rpc::Agent> agent = given ? given->share() : rpc::default_agent();
  TENDRIL_CHECK_AS(rpc::UsageError, !workers.empty(), "ProcessGroup: workers: got an empty list");
  TENDRIL_CHECK_AS(rpc::UsageError, options.chunk_bytes == 0 || options.chunk_bytes >= 16,
                   "ProcessGroup: chunk_bytes must be at least 16, or 0, got ", options.chunk_bytes);
  TENDRIL_CHECK_AS(rpc::UsageError, options.timeout.count() >= 0, "ProcessGroup: timeout must not be negative, got ",
                   options.timeout.count(), " ms");
  std::vector<rpc::WorkerInfo> members;
  int rank = -1;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    members.push_back(agent->worker(workers[i]));
    for (std::size_t j = 0; j < i; ++j) {
      TENDRIL_CHECK_AS(rpc::UsageError, members[j].id != members[i].id, "ProcessGroup: worker '", workers[i],
                       "' is named twice");
    }
    if (members[i].id == agent->self().id) rank = static_cast<int>(i);
  }
  TENDRIL_CHECK_AS(rpc::UsageError, rank >= 0, "ProcessGroup: this worker, '", agent->self().name,
                   "', is not among its workers");
  const auto hub = CollectiveHub::of(*agent);
  auto channel = std::make_shared<Channel>(hub->transmitter(), std::move(members), rank, options.tag);
  hub->add(channel);
  channel->when_closed([weak = std::weak_ptr(hub)](const Channel& closed) {
    if (const auto there = weak.lock()) there->remove(closed);
  });
  try {
    const rpc::CallContextScope no_context{rpc::CallContext{}};
    channel->join(deadline_of(options.timeout));
  } catch (...) {
    hub->remove(*channel);
    throw;
  }
  return channel;
}

}  // namespace
}  // namespace detail

ProcessGroup::ProcessGroup(const bool*, rpc::Agent* agent, const std::vector<std::string>& workers,
                           const Options& options)
    : channel_(detail::open_channel(agent, workers, options)),
      queue_(std::make_unique<detail::CollectiveQueue>(channel_->executor())),
      backend_(options.backend),
      chunk_bytes_(options.chunk_bytes) {
  if (backend_ == Backend::ring) return;
  try {
    carrier_ = (backend_ == Backend::mpi ? detail::MpiGroup::make : detail::NcclGroup::make)(
        *channel_, detail::deadline_of(options.timeout));
  } catch (...) {
    channel_->close();
    throw;
  }
}

ProcessGroup::~ProcessGroup() {
  channel_->close();
  queue_.reset();
}

int ProcessGroup::rank() const noexcept { return channel_->rank(); }
int ProcessGroup::size() const noexcept { return channel_->size(); }
const std::vector<rpc::WorkerInfo>& ProcessGroup::workers() const noexcept { return channel_->members(); }

void ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, const CollectiveOptions& options) {
  detail::check_changeable("all_reduce", x);
  detail::check_reducible("all_reduce", x, op);
  detail::check_options("all_reduce", options);
  const auto deadline = detail::deadline_of(options.timeout);
  const bool by_rank = options.deterministic.value_or(deterministic());
  queue_->run([&] {
    detail::reduce_in_place(*channel_, detail::backend_for(carrier_, x, true, by_rank), chunk_bytes_, x, op, by_rank,
                            deadline);
  });
}

rpc::Future<void> ProcessGroup::all_reduce_async(const Tensor& x, ReduceOp op, const CollectiveOptions& options) {
  detail::check_changeable("all_reduce", x);
  detail::check_reducible("all_reduce", x, op);
  detail::check_options("all_reduce", options);
  const bool by_rank = options.deterministic.value_or(deterministic());
  const auto reduce = [this, x, op, by_rank, deadline = detail::deadline_of(options.timeout)] {
    detail::reduce_in_place(*channel_, detail::backend_for(carrier_, x, true, by_rank), chunk_bytes_, x, op, by_rank,
                            deadline);
  };
  if (x.device().type != DeviceType::cuda) return queue_->post(reduce);
  return queue_->post(detail::on_a_stream(x, reduce));
}

void ProcessGroup::broadcast(const Tensor& x, int root, const CollectiveOptions& options) {
  detail::check_changeable("broadcast", x);
  detail::check_options("broadcast", options);
  TENDRIL_CHECK_AS(rpc::UsageError, root >= 0 && root < size(), "broadcast: root ", root, " of ", size(), " members");
  const auto deadline = detail::deadline_of(options.timeout);
  if (size() == 1) return;
  queue_->run([&] {
    detail::CollectiveBackend* const carrier = detail::backend_for(carrier_, x, false, false);
    const std::string what =
        detail::describe(x, chunk_bytes_, "broadcast(from ", root, detail::backend_text(carrier), ")");
    const auto send = [&](const Tensor& flat) {
      if (carrier) return carrier->broadcast(*channel_, flat, root);
      detail::chain_broadcast(*channel_, flat, root, detail::chunk_elements(x, chunk_bytes_, size()));
    };
    detail::in_operation(*channel_, what, deadline, [&] {
      if (rank() == root) return send(detail::flat_of(carrier, x));
      detail::change_in_place(carrier, x, send);
    });
  });
}

std::vector<Tensor> ProcessGroup::all_gather(const Tensor& x, const CollectiveOptions& options) {
  detail::check_tensor("all_gather", x);
  detail::check_options("all_gather", options);
  const auto deadline = detail::deadline_of(options.timeout);
  const int64_t each = x.numel();
  detail::CollectiveBackend* const carrier = detail::backend_for(carrier_, x, false, false);
  const Tensor mine = detail::flat_of(carrier, x);
  const Tensor all = raw::empty({each * size()}, x.dtype(), mine.device());
  raw::copy_(raw::narrow(all, 0, each * rank(), each), mine);
  if (size() > 1) {
    queue_->run([&] {
      const std::string what = detail::describe(x, chunk_bytes_, "all_gather", detail::backend_text(carrier));
      detail::in_operation(*channel_, what, deadline, [&] {
        if (carrier)
          carrier->all_gather(*channel_, all);
        else
          detail::ring_all_gather(*channel_, all, detail::chunk_elements(x, chunk_bytes_, size()));
      });
    });
  }
  std::vector<Tensor> parts;
  for (int i = 0; i < size(); ++i) {
    parts.push_back(raw::to(raw::reshape(raw::narrow(all, 0, each * i, each), x.sizes()), x.device()));
  }
  return parts;
}

Tensor ProcessGroup::reduce_scatter(const Tensor& x, ReduceOp op, const CollectiveOptions& options) {
  detail::check_tensor("reduce_scatter", x);
  detail::check_reducible("reduce_scatter", x, op);
  detail::check_options("reduce_scatter", options);
  TENDRIL_CHECK_AS(ShapeError, x.dim() > 0 && x.size(0) % size() == 0, "reduce_scatter: x has shape ", x.sizes(),
                   ", expected dim 0 to be divisible by the number of members, ", size());
  const auto deadline = detail::deadline_of(options.timeout);
  const bool by_rank = options.deterministic.value_or(deterministic());
  detail::CollectiveBackend* const carrier = detail::backend_for(carrier_, x, true, by_rank);
  const Tensor flat = raw::clone(detail::flat_of(carrier, x));
  if (size() > 1) {
    queue_->run([&] {
      const std::string what = detail::describe(x, chunk_bytes_, "reduce_scatter(", detail::name_of(op),
                                                detail::backend_text(carrier, by_rank), ")");
      detail::in_operation(*channel_, what, deadline, [&] {
        if (carrier) return carrier->reduce_scatter(*channel_, flat, op);
        detail::reduce_wide(op, flat, [&](const Tensor& wide) {
          (by_rank ? detail::chain_reduce_scatter : detail::ring_reduce_scatter)(
              *channel_, wide, detail::combination(op, size()), detail::chunk_elements(wide, chunk_bytes_, size()));
        });
      });
    });
  }
  Dims sizes = x.sizes();
  sizes[0] /= size();
  const int64_t each = x.numel() / size();
  return raw::to(raw::reshape(raw::clone(raw::narrow(flat, 0, each * rank(), each)), sizes), x.device());
}

void ProcessGroup::barrier(const CollectiveOptions& options) {
  all_reduce(raw::zeros({1}, kInt32), ReduceOp::max, options);
}

void ProcessGroup::abort(const std::string& why) {
  const std::string& self = channel_->members()[static_cast<std::size_t>(rank())].name;
  channel_->fail({detail::Failure::other, channel_->name() + ": worker '" + self + "' aborted: " + why}, true);
}

}  // namespace tendril::dist
