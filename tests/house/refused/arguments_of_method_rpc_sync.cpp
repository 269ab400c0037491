// expected error: deleted .*F = &?Counter::add
#include <string>

#include "tendril/rpc/rref.h"

struct Counter {
  int add(int x) { return x; }
};

void call(const tendril::rpc::RRef<Counter>& counter) { counter.rpc_sync<&Counter::add>(std::string("one")); }
