// Works on the second device only, in the ways that argv[1] names, and prints which devices have a context then.
#include <cstdio>
#include <functional>
#include <string_view>
#include <thread>

#include "cuda_emulator/emulator.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

constexpr Device kSecond{DeviceType::cuda, 1};

void compute() {
  const Tensor x = raw::full({1000}, 2, kFloat32, kSecond);
  const Tensor y = x * 3, pinned = cuda::pinned_empty({1000});
  raw::copy_(pinned, y, true);
  cuda::synchronize(1);
  x.index_select(0, raw::to(raw::from_data(std::vector<int64_t>{1}, {1}), kSecond)).item<float>();
}

void use_streams() {
  const cuda::Stream side(1);
  const Tensor x = raw::full({1000}, 2, kFloat32, kSecond);
  {
    const cuda::StreamGuard guard(side);
    const Tensor y = x * 3;
    cuda::record_stream(x, side);
    cuda::Event event;
    event.record(side);
    cuda::Stream::default_of(1).wait(event);
    event.synchronize();
  }
  side.synchronize();
  cuda::empty_cache(1);
}

void ask() {
  device_count(DeviceType::cuda);
  cuda::device_name(0);
  cuda::device_name(1);
  cuda::memory_stats(0);
  cuda::memory_stats(1);
  cuda::Stream::current(0);
}

}  // namespace

int main(int, char** argv) {
  const std::string_view what = argv[1];
  if (what == "asks") ask();
  if (what == "computes") compute();
  if (what == "streams") use_streams();
  if (what == "releases") {  // where this thread never chose a device
    Tensor x;
    std::thread([&] {
      x = raw::full({1000}, 2, kFloat32, kSecond);
      const cuda::Stream side(1);
      cuda::record_stream(x, side);
    }).join();
    x = {};
    cuda::empty_cache(1);
  }
  if (what == "waits") {  // each in a thread that chose none: the first call leaves it a device
    Tensor x = raw::full({1000}, 2, kFloat32, kSecond);
    cuda::Event timed(true), later(true), event;
    const cuda::Stream side(1);
    timed.record(side);
    later.record(side);
    event.record(side);
    const auto in_a_thread = [](const std::function<void()>& f) { std::thread(f).join(); };
    in_a_thread([&] { event.done(); });
    in_a_thread([&] { later.reach(); });
    in_a_thread([&] { later.milliseconds_since(timed); });
    in_a_thread([&] { event = cuda::Event(); });
    cuda::record_stream(x, side);
    x = {};
    in_a_thread([] { cuda::empty_cache(1); });
  }
  if (what == "pins") {
    cuda::set_local_rank(3);  // of two devices: the second
    cuda::pinned_empty({1000});
  }
  std::printf("%d%d", cuda_emulator::has_context(0), cuda_emulator::has_context(1));
}
