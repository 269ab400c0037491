// expected error: deleted .*F = &?greet
#include <string>

#include "tendril/rpc/call.h"

std::string greet(const std::string& name, int times) { return name + std::to_string(times); }

void call() { tendril::rpc::remote<&greet>("bob", 3, "me"); }
