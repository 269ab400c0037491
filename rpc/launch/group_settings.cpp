#include "tendril/rpc/launch/group_settings.h"

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstring>
#include <optional>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {
namespace {

using Environment = std::function<const char*(const char*)>;

/// Launchers, in the order in which they are asked: mpirun works within a Slurm allocation, so it goes first.
struct Launcher {
  const char* detected_by;
  const char* rank;
  const char* world_size;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_RANK", "PMI_SIZE"},
    {"SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_NTASKS"},
    {"JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", "WORLD_SIZE"},  // Kubernetes Indexed Jobs state no size
};

std::optional<int> number(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, value);
  TENDRIL_CHECK_AS(UsageError, result.ec == std::errc() && result.ptr == end, "the environment variable ", variable,
                   " must be a number, got '", text, "'");
  return value;
}

const Launcher& launcher(const Environment& environment) {
  for (const Launcher& one : kLaunchers)
    if (environment(one.detected_by) != nullptr) return one;
  return kLaunchers[0];
}

/// Security does not exist yet, so nothing that other hosts could reach is listened on or dialled.
std::string loopback_address(const std::string& name) {
  if (name == "localhost") return "127.0.0.1";
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(name, error);
  TENDRIL_CHECK_AS(UsageError, !error && address.is_loopback(), "master_addr (MASTER_ADDR) '", name,
                   "' is refused: connections are not authenticated yet, so a group lives on one host and meets at a "
                   "loopback address: localhost, 127.0.0.0/8 or ::1");
  return address.to_string();
}

}  // namespace

GroupSettings group_settings(const std::string& name, const InitOptions& options, const Environment& environment) {
  const Launcher& from = launcher(environment);
  GroupSettings settings;
  settings.self.name = name;

  std::optional<int> rank = options.rank, world_size = options.world_size, port = options.master_port;
  if (options.rank == -1) rank = number(environment, from.rank);
  if (options.world_size == -1) world_size = number(environment, from.world_size);
  TENDRIL_CHECK_AS(UsageError, rank, "the rank of '", name, "' is given neither in the options nor by RANK");
  TENDRIL_CHECK_AS(UsageError, world_size, "the world size is given neither in the options nor by WORLD_SIZE");
  TENDRIL_CHECK_AS(UsageError, *world_size >= 1 && *world_size <= 4096, "the world size must be 1 to 4096, got ",
                   *world_size);
  TENDRIL_CHECK_AS(UsageError, *rank >= 0 && *rank < *world_size, "the rank (RANK) must be 0 to ", *world_size - 1,
                   " in a group of world size (WORLD_SIZE) ", *world_size, ", got ", *rank);
  settings.self.id = *rank;
  settings.world_size = *world_size;

  const char* address = options.master_addr.empty() ? environment("MASTER_ADDR") : options.master_addr.c_str();
  settings.master_addr = loopback_address(address == nullptr || *address == '\0' ? "127.0.0.1" : address);

  if (options.master_port == -1) {
    port = number(environment, "MASTER_PORT");
    // torchrun's agent listens on MASTER_PORT itself then.
    const char* taken = environment("TORCHELASTIC_USE_AGENT_STORE");
    if (port && taken != nullptr && std::strcmp(taken, "True") == 0) ++*port;
  }
  if (!port && settings.world_size == 1) port = 0;  // nobody has to find it: any free one
  TENDRIL_CHECK_AS(UsageError, port,
                   "the port at which rank 0 listens is given neither in the options (master_port) nor "
                   "by MASTER_PORT");
  TENDRIL_CHECK_AS(UsageError, *port >= (settings.world_size == 1 ? 0 : 1) && *port <= 65535,
                   "master_port (MASTER_PORT) must be 1 to 65535, got ", *port);
  settings.master_port = static_cast<uint16_t>(*port);

  TENDRIL_CHECK_AS(UsageError, options.init_timeout.count() > 0, "init_timeout must be positive, got ",
                   options.init_timeout.count(), " ms");
  return settings;
}

}  // namespace tendril::rpc::detail
