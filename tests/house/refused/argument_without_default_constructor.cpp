// expected: a received value is made by its default constructor
#include "depth.h"
#include "tendril/rpc/call.h"

int use(const Depth& settings) { return settings.depth; }

int main() { return tendril::rpc::rpc_sync<&use>("w1", Depth(1)); }
