#include "tendril/rpc/group/group_settings.h"

#include "tendril/rpc/error.h"
#include "tendril/rpc/launch/spawn_registry.h"

namespace tendril::rpc::detail {
namespace {

GroupSettings merge(const std::string& name, const InitOptions& options, const Launched& launched) {
  GroupSettings settings;
  settings.self.name = name;

  // -1 means "not given"; any other invalid value is an error.
  std::optional<int> rank = options.rank, world_size = options.world_size, port = options.master_port;
  if (options.rank == -1) rank = launched.rank;
  if (options.world_size == -1) world_size = launched.world_size;
  TENDRIL_CHECK_AS(UsageError, rank || launched.slurm_tasks == 0,
                   "this is a Slurm allocation, but srun has not started this process; type: ",
                   srun_line(launched.slurm_tasks, saved_arguments()));
  TENDRIL_CHECK_AS(UsageError, rank, "the rank of '", name, "' is given neither in the options nor by RANK");
  TENDRIL_CHECK_AS(UsageError, world_size, "the world size is given neither in the options nor by WORLD_SIZE");
  TENDRIL_CHECK_AS(UsageError, *world_size >= 1 && *world_size <= 4096, "the world size must be 1 to 4096, got ",
                   *world_size);
  TENDRIL_CHECK_AS(UsageError, *rank >= 0 && *rank < *world_size, "the rank (RANK) must be 0 to ", *world_size - 1,
                   " in a group of world size (WORLD_SIZE) ", *world_size, ", got ", *rank);
  settings.self.id = *rank;
  settings.world_size = *world_size;

  std::string address = options.master_addr.empty() ? launched.master_addr : options.master_addr;
  if (address.empty()) {
    // Workers that were started by hand are assumed to share this host. A launcher that provides neither this address
    // nor rank 0's host may have used several hosts.
    TENDRIL_CHECK_AS(
        UsageError, launched.advice.empty() || *world_size == 1,
        "the host of rank 0 is given neither in the options (master_addr) nor by MASTER_ADDR: ", launched.advice);
    address = kLoopback;
  }
  settings.master_addr = address == "localhost" ? kLoopback : address;

  if (options.master_port == -1) port = launched.master_port;
  if (!port) port = settings.world_size == 1 ? 0 : kDefaultPort;  // no other worker connects: any free port
  TENDRIL_CHECK_AS(UsageError, *port >= (settings.world_size == 1 ? 0 : 1) && *port <= 65535,
                   "master_port (MASTER_PORT) must be 1 to 65535, got ", *port);
  settings.master_port = static_cast<uint16_t>(*port);

  TENDRIL_CHECK_AS(UsageError, options.init_timeout.count() > 0, "init_timeout must be positive, got ",
                   options.init_timeout.count(), " ms");
  return settings;
}

}  // namespace

GroupSettings group_settings(const std::string& name, const InitOptions& options, const Launched& launched) {
  try {
    return merge(name, options, launched);
  } catch (const UsageError& e) {
    throw UsageError(std::string(e.what()) + "; " + launched.text());
  }
}

Transport given_transport(Transport option, const char* variable) {
  const std::string said = variable == nullptr ? "" : variable;
  if (option != Transport::automatic || said.empty() || said == "automatic") return option;
  if (said == "tcp") return Transport::tcp;
  TENDRIL_CHECK_AS(UsageError, said == "unix", "TENDRIL_TRANSPORT must be automatic, tcp or unix, got '", said, "'");
  return Transport::unix_socket;
}

namespace {
/// Returns the value of a variable that must be 0 or 1, or nullopt if it is not set.
std::optional<bool> flag(const char* name, const char* value) {
  const std::string said = value == nullptr ? "" : value;
  TENDRIL_CHECK_AS(UsageError, said.empty() || said == "0" || said == "1", name, " must be 0 or 1, got '", said, "'");
  if (said.empty()) return std::nullopt;
  return said == "1";
}
}  // namespace

bool given_cuda_ipc(bool option, const char* variable) {
  const bool said = flag("TENDRIL_CUDA_IPC", variable).value_or(false);
  return option || said;
}

bool given_encrypt(bool option, const char* variable) {
  const bool said = flag("TENDRIL_ENCRYPT", variable).value_or(true);
  return option && said;
}

}  // namespace tendril::rpc::detail
