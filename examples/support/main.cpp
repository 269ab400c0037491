#include "main.h"

#include <tendril/rpc/launch.h>

namespace examples {

bool prints(const tendril::rpc::LaunchOptions& launch) {
  const auto info = tendril::rpc::launch_info();
  return info.launcher != "rpc::spawn" && (launch.rank >= 0 ? launch.rank : info.rank) <= 0;
}

}  // namespace examples
