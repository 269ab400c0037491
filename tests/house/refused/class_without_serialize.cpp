// expected: this class cannot be sent to another worker
#include "tendril/rpc/call.h"

struct Settings {
  int depth = 0;
};
int use(const Settings& settings) { return settings.depth; }

int main() { return tendril::rpc::rpc_sync<&use>("w1", Settings{}); }
