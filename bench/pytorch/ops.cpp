// What bench/ops measures, in LibTorch: the peer in the same run. Prints "untracked tracked forward_backward", ns an
// operation.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

template <class F>
double median_ns(int repeats, int calls, F f) {
  std::vector<double> times;
  for (int r = 0; r < repeats; ++r) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) f();
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls);
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

int main() {
  torch::set_num_threads(1);
  const auto a = torch::rand({4}), b = torch::rand({4}), w = torch::rand({4}, torch::requires_grad());
  const int nodes = 1000;
  const double untracked = median_ns(21, 2000, [&] { auto c = a + b; });
  const double tracked = median_ns(21, 2000, [&] { auto c = w + b; });
  const double both = median_ns(21, 2, [&] {
    auto c = w + b;
    for (int i = 1; i < nodes; ++i) c = c + b;
    c.backward(b);
  });
  std::printf("%.1f %.1f %.1f\n", untracked, tracked, both / nodes);
}
