// expected: a received value is made by its default constructor
#include <vector>

#include "depth.h"
#include "tendril/rpc/call.h"

int use(const std::vector<Depth>& depths) { return depths.front().depth; }

int main() { return tendril::rpc::rpc_sync<&use>("w1", std::vector<Depth>{Depth(1)}); }
