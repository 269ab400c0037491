// expected: write remote<&function>.worker, arguments....
#include "tendril/rpc/call.h"

int twice(int x) { return 2 * x; }

void call() { tendril::rpc::remote("bob", twice, 3); }
