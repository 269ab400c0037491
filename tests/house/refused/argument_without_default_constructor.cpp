// expected: what is received is made by its default constructor
#include "tendril/rpc/call.h"

struct Depth {
  explicit Depth(int d) : depth(d) {}
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& depth;
  }
  int depth;
};
int use(const Depth& settings) { return settings.depth; }

int main() { return tendril::rpc::rpc_sync<&use>("w1", Depth(1)); }
