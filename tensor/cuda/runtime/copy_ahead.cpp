#include <utility>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::cuda {

CopyAhead::CopyAhead(int device) : stream_(device) {}

void CopyAhead::push(const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TENDRIL_CHECK(tensors[i].defined(), "CopyAhead::push: tensor ", i, " is undefined");
    // A device's own tensor would be read before the stream that makes it has come so far.
    TENDRIL_CHECK(tensors[i].device().is_cpu(), "CopyAhead::push: tensor ", i, " is on ", tensors[i].device(),
                  ", expected the cpu");
  }
  const StreamGuard guard(stream_);
  Batch batch;
  for (const Tensor& x : tensors) {
    const Tensor there = raw::empty(x.sizes(), x.dtype(), {DeviceType::cuda, static_cast<int8_t>(stream_.device())});
    raw::copy_(there, x, true);
    batch.tensors.push_back(there);
  }
  batch.copied.record(stream_);
  queued_.push_back(std::move(batch));
}

std::vector<Tensor> CopyAhead::pop() {
  TENDRIL_CHECK(!queued_.empty(), "CopyAhead::pop: nothing was pushed");
  const Stream here = Stream::current(stream_.device());
  here.wait(queued_.front().copied);
  Batch batch = std::move(queued_.front());
  queued_.pop_front();
  for (const Tensor& x : batch.tensors) record_stream(x, here);  // their memory is the copies' stream's
  return std::move(batch.tensors);
}

}  // namespace tendril::cuda
