// Chapter 5: references. An object lives on its owner; other workers hold references to it and call its methods.
#include <tendril/tendril.h>

#include <cstdio>
#include <string>

using namespace tendril;

struct Counter {
  explicit Counter(std::int64_t start) : value(start) {}
  std::int64_t add(std::int64_t n) { return value += n; }

  std::int64_t value;
};

Tensor make_noise(std::int64_t size) { return randn({size, size}); }
Tensor times_two(const rpc::RRef<Tensor>& x) { return 2 * x.to_here(); }
double total(const rpc::RRef<Tensor>& x) { return x.to_here().sum().item<double>(); }
// A reference can be an argument. Carol now holds one, too, and calls bob, the owner, directly.
std::int64_t count_for(const rpc::RRef<Counter>& counter) { return counter.rpc_sync<&Counter::add>(10); }

void run(int rank) {
  const char* names[] = {"alice", "bob", "carol"};
  rpc::init_rpc(names[rank]);
  if (rank == 0) {
    // Constructs the object on bob. The reference is available immediately.
    const auto counter = rpc::remote<Counter>("bob", 100);
    std::printf("owner %s\n", counter.owner().name.c_str());
    counter.rpc_sync<&Counter::add>(1);
    const auto later = rpc::rpc_async<&count_for>("carol", counter);
    std::printf("carol added 10: %lld\n", static_cast<long long>(later.wait()));

    // A chain whose tensors never reach this worker: bob creates and doubles one; carol fetches it and returns the sum.
    const auto noise = rpc::remote<&make_noise>("bob", 100);
    const auto doubled = rpc::remote<&times_two>("bob", noise);
    const double sum = rpc::rpc_sync<&total>("carol", doubled);
    std::printf("sum known to carol: %s\n", sum == doubled.to_here().sum().item<double>() ? "the same" : "another");
  }
  // Bob's object is destroyed with the last reference on any worker; none is left when shutdown returns.
  rpc::shutdown();
}

int main(int argc, char** argv) { rpc::launch<&run>(argc, argv, {.world_size = 3}); }
