#include "tendril/dist/collectives/detail/carrier.h"

#include "tendril/tensor/raw.h"

namespace tendril::dist::detail {

Tensor flat_on_cpu(const Tensor& x) { return raw::reshape(raw::contiguous(raw::to(x, kCPU)), {x.numel()}); }

void agree(Channel& channel) {
  const int size = channel.size(), rank = channel.rank();
  if (size == 1) return;
  channel.send((rank + 1) % size, 0, 0, raw::empty({0}, kUInt8, kCPU));
  channel.receive((rank + size - 1) % size, 0, 0, 0, kUInt8);
  channel.flush();
}

}  // namespace tendril::dist::detail
