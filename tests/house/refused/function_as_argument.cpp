// expected: write rpc_sync<&function>.worker, arguments....
#include <string>

#include "tendril/rpc/call.h"

std::string greet(const std::string& name, int times) { return name + std::to_string(times); }

std::string call() { return tendril::rpc::rpc_sync("bob", greet, "me", 3); }
