// expected: a received value is made by its default constructor
#include "depth.h"
#include "tendril/rpc/call.h"

Depth make(int depth) { return Depth(depth); }

int main() { return tendril::rpc::rpc_sync<&make>("w1", 1).depth; }
