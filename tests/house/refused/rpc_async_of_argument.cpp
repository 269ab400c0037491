// expected: write rpc_async<&function>.worker, arguments....
#include "tendril/rpc/call.h"

int twice(int x) { return 2 * x; }

void call() { tendril::rpc::rpc_async("bob", twice, 3); }
