// expected error: deleted .*F = &?greet
#include <string>

#include "tendril/rpc/call.h"

std::string greet(const std::string& name, int times) { return name + std::to_string(times); }

void call() { tendril::rpc::rpc_async<&greet>("bob", "me", 1, 2); }
