#include "tendril/dist/collectives/process_group.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tendril/autograd/grad_mode.h"
#include "tendril/dist/collectives/detail/channel.h"
#include "tendril/dist/collectives/detail/hub.h"
#include "tendril/dist/collectives/detail/mpi.h"
#include "tendril/dist/collectives/detail/operation.h"
#include "tendril/dist/collectives/detail/queue.h"
#include "tendril/dist/collectives/detail/ring.h"
#include "tendril/rpc/default_agent.h"
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

/// "all_reduce(sum, by rank) of float32 [2, 3]": members compare these.
template <class... Parts>
std::string describe(const Tensor& x, std::size_t chunk_bytes, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  text << " of " << x.dtype() << " " << x.sizes() << " in chunks of " << chunk_bytes << " bytes";
  return text.str();
}

void check_tensor(const char* op, const Tensor& x) { TENDRIL_CHECK(x.defined(), op, ": x is an undefined tensor"); }

void check_changeable(const char* op, const Tensor& x) {
  check_tensor(op, x);
  TENDRIL_CHECK_AS(AutogradError, !(tendril::autograd::grad_enabled() && x.requires_grad()), op,
                   ": x requires a gradient, and is changed in place without being recorded: call it under NoGrad");
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
    combine.finish = [size](const Tensor& whole) { raw::binary_(Binary::div, whole, Scalar(size)); };
  }
  return combine;
}

/// The elements in order on the CPU: x's own where it lies so.
Tensor flat_of(const Tensor& x) { return raw::reshape(raw::contiguous(raw::to(x, kCPU)), {x.numel()}); }

int64_t chunk_elements(const Tensor& x, std::size_t chunk_bytes) {
  return std::max<int64_t>(1, static_cast<int64_t>(chunk_bytes / size_of(x.dtype())));
}

/// How sums are made, as members compare it.
const char* way_of(bool deterministic, bool by_mpi) {
  return deterministic ? ", by rank)" : by_mpi ? ", by MPI)" : ")";
}

void reduce_in_place(Channel& channel, MpiGroup* mpi, std::size_t chunk_bytes, const Tensor& x, ReduceOp op,
                     bool deterministic, rpc::Clock::time_point deadline) {
  const bool by_mpi = mpi && !deterministic && MpiGroup::reduces(x.dtype());
  const std::string what = describe(x, chunk_bytes, "all_reduce(", name_of(op), way_of(deterministic, by_mpi));
  if (channel.size() == 1) return;
  in_operation(channel, what, deadline, [&] {
    const Tensor flat = flat_of(x);
    if (by_mpi) {
      mpi->all_reduce(channel, flat, op);
    } else {
      const Combine combine = combination(op, channel.size());
      (deterministic ? chain_all_reduce : ring_all_reduce)(channel, flat, combine, chunk_elements(x, chunk_bytes));
    }
    x.storage()->bump_version();
    if (flat.storage() != x.storage()) raw::copy_(x, raw::reshape(flat, x.sizes()));
  });
}

std::shared_ptr<Channel> open_channel(rpc::Agent* given, const std::vector<std::string>& workers,
                                      const ProcessGroup::Options& options) {
  const std::shared_ptr<rpc::Agent> agent = given ? given->share() : rpc::default_agent();
  TENDRIL_CHECK_AS(rpc::UsageError, !workers.empty(), "ProcessGroup: workers: got an empty list");
  TENDRIL_CHECK_AS(rpc::UsageError, options.chunk_bytes >= 16, "ProcessGroup: chunk_bytes must be at least 16, got ",
                   options.chunk_bytes);
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
      queue_(std::make_unique<detail::CollectiveQueue>()),
      chunk_bytes_(options.chunk_bytes) {
  if (options.backend == Backend::ring) return;
  try {
    mpi_ = detail::MpiGroup::make(*channel_, detail::deadline_of(options.timeout));
  } catch (...) {
    channel_->close();
    throw;
  }
}

ProcessGroup::~ProcessGroup() {
  channel_->close();
  queue_.reset();
}

bool ProcessGroup::uses_mpi() const noexcept { return mpi_ != nullptr; }
int ProcessGroup::rank() const noexcept { return channel_->rank(); }
int ProcessGroup::size() const noexcept { return channel_->size(); }
const std::vector<rpc::WorkerInfo>& ProcessGroup::workers() const noexcept { return channel_->members(); }

void ProcessGroup::all_reduce(const Tensor& x, ReduceOp op, const CollectiveOptions& options) {
  detail::check_changeable("all_reduce", x);
  detail::check_reducible("all_reduce", x, op);
  detail::check_options("all_reduce", options);
  const auto deadline = detail::deadline_of(options.timeout);
  queue_->run([&] {
    detail::reduce_in_place(*channel_, mpi_.get(), chunk_bytes_, x, op, options.deterministic.value_or(deterministic()),
                            deadline);
  });
}

rpc::Future<void> ProcessGroup::all_reduce_async(const Tensor& x, ReduceOp op, const CollectiveOptions& options) {
  detail::check_changeable("all_reduce", x);
  detail::check_reducible("all_reduce", x, op);
  detail::check_options("all_reduce", options);
  const bool by_rank = options.deterministic.value_or(deterministic());
  return queue_->post([this, x, op, by_rank, deadline = detail::deadline_of(options.timeout)] {
    detail::reduce_in_place(*channel_, mpi_.get(), chunk_bytes_, x, op, by_rank, deadline);
  });
}

void ProcessGroup::broadcast(const Tensor& x, int root, const CollectiveOptions& options) {
  detail::check_changeable("broadcast", x);
  detail::check_options("broadcast", options);
  TENDRIL_CHECK_AS(rpc::UsageError, root >= 0 && root < size(), "broadcast: root ", root, " of ", size(), " members");
  const auto deadline = detail::deadline_of(options.timeout);
  if (size() == 1) return;
  queue_->run([&] {
    const std::string what =
        detail::describe(x, chunk_bytes_, "broadcast(from ", root, detail::way_of(false, mpi_ != nullptr));
    detail::in_operation(*channel_, what, deadline, [&] {
      const Tensor flat = detail::flat_of(x);
      if (mpi_)
        mpi_->broadcast(*channel_, flat, root);
      else
        detail::chain_broadcast(*channel_, flat, root, detail::chunk_elements(x, chunk_bytes_));
      if (rank() == root) return;
      x.storage()->bump_version();
      if (flat.storage() != x.storage()) raw::copy_(x, raw::reshape(flat, x.sizes()));
    });
  });
}

std::vector<Tensor> ProcessGroup::all_gather(const Tensor& x, const CollectiveOptions& options) {
  detail::check_tensor("all_gather", x);
  detail::check_options("all_gather", options);
  const auto deadline = detail::deadline_of(options.timeout);
  const int64_t each = x.numel();
  const Tensor all = raw::empty({each * size()}, x.dtype());
  raw::copy_(raw::narrow(all, 0, each * rank(), each), detail::flat_of(x));
  if (size() > 1) {
    queue_->run([&] {
      const std::string what = detail::describe(x, chunk_bytes_, mpi_ ? "all_gather by MPI" : "all_gather");
      detail::in_operation(*channel_, what, deadline, [&] {
        if (mpi_)
          mpi_->all_gather(*channel_, all);
        else
          detail::ring_all_gather(*channel_, all, detail::chunk_elements(x, chunk_bytes_));
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
                   ", expected a dim 0 that divides by the number of members, ", size());
  const auto deadline = detail::deadline_of(options.timeout);
  const bool by_rank = options.deterministic.value_or(deterministic());
  const Tensor flat = raw::clone(detail::flat_of(x));
  if (size() > 1) {
    queue_->run([&] {
      const bool by_mpi = mpi_ && !by_rank && detail::MpiGroup::reduces(x.dtype());
      const std::string what =
          detail::describe(x, chunk_bytes_, "reduce_scatter(", detail::name_of(op), detail::way_of(by_rank, by_mpi));
      detail::in_operation(*channel_, what, deadline, [&] {
        if (by_mpi) return mpi_->reduce_scatter(*channel_, flat, op);
        (by_rank ? detail::chain_reduce_scatter : detail::ring_reduce_scatter)(
            *channel_, flat, detail::combination(op, size()), detail::chunk_elements(x, chunk_bytes_));
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
