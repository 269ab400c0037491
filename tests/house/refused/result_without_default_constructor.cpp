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
Depth make(int depth) { return Depth(depth); }

int main() { return tendril::rpc::rpc_sync<&make>("w1", 1).depth; }
