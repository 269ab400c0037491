// expected: expected a function void
#include "tendril/rpc/spawn.h"

void run() {}

int main() { tendril::rpc::spawn<&run>({.world_size = 2}); }
