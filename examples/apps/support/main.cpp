#include "main.h"

#include <tendril/rpc/launch.h>

namespace examples {

bool prints(int argc, char** argv, const tendril::rpc::LaunchOptions& launch) {
  tendril::rpc::worker_main(argc, argv);
  return (launch.rank >= 0 ? launch.rank : tendril::rpc::launch_info().rank) <= 0;
}

}  // namespace examples
