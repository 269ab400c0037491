#include "tendril/rpc/launch/launcher.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {
namespace {

// Above the ports that systems hand out to clients (Linux: 32768 to 60999), so that a job's port is seldom taken.
constexpr int kJobPorts = 61440, kJobPortCount = 4096;

int port_of_job(uint64_t id) { return kJobPorts + static_cast<int>(id % kJobPortCount); }

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Reads variables and records which ones. An empty variable counts as unset.
class Variables {
 public:
  Variables(const Environment& environment, const std::function<std::optional<int>(int)>& maker_of)
      : environment_(environment), maker_of_(maker_of) {}

  /// Returns the process that created the socket whose descriptor is the variable's value.
  std::optional<int> maker_of(const char* name) {
    const auto descriptor = number(name);
    return descriptor ? maker_of_(*descriptor) : std::nullopt;
  }

  bool has(const char* name) const {
    const char* value = environment_(name);
    return value != nullptr && *value != '\0';
  }

  std::optional<std::string> text(const char* name) {
    if (!has(name)) return std::nullopt;
    std::string value = environment_(name);
    if (std::find(noted_.begin(), noted_.end(), name) == noted_.end()) {
      noted_.emplace_back(name);
      read_.append(read_.empty() ? "" : ", ").append(name).append("=").append(value);
    }
    return value;
  }

  template <class Number = int>
  std::optional<Number> number(const char* name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto result = parse_number<Number>(*value);
    TENDRIL_CHECK_AS(UsageError, result, "the environment variable ", name, " must be a number, got '", *value, "'");
    return result;
  }

  const std::string& read() const { return read_; }

 private:
  const Environment& environment_;
  const std::function<std::optional<int>(int)>& maker_of_;
  std::vector<std::string> noted_;
  std::string read_;
};

/// Returns the size that the launcher states, or else WORLD_SIZE. If both are set, they must agree.
std::optional<int> stated_size(Variables& variables, const char* name) {
  const auto size = variables.number(name), plain = variables.number("WORLD_SIZE");
  TENDRIL_CHECK_AS(UsageError, !size || !plain || size == plain, name, "=", *size, " and WORLD_SIZE=", *plain,
                   " contradict each other: unset WORLD_SIZE, or set RANK and MASTER_ADDR too, which take precedence");
  return size ? size : plain;
}

void read_master(Variables& variables, Launched& launched) {
  launched.master_addr = variables.text("MASTER_ADDR").value_or("");
  launched.master_port = variables.number("TENDRIL_PORT");
  if (!launched.master_port) launched.master_port = variables.number("MASTER_PORT");
}

void read_plain(Variables& variables, Launched& launched) {
  launched.rank = variables.number("RANK");
  launched.world_size = variables.number("WORLD_SIZE");
  launched.local_rank = variables.number("LOCAL_RANK");
  launched.local_world_size = variables.number("LOCAL_WORLD_SIZE");
}

void read_torchrun(Variables& variables, Launched& launched) {
  read_plain(variables, launched);
  // torchrun sets MASTER_ADDR itself, to the host's name, even if all processes are on one host.
  launched.master_addr = launched.all_local() ? kLoopback : variables.text("MASTER_ADDR").value_or("");
  launched.master_port = variables.number("TENDRIL_PORT");
  if (launched.master_port) return;
  // torchrun's agent listens on MASTER_PORT itself.
  if (const auto agents = variables.number("MASTER_PORT"))
    launched.master_port = *agents < 65535 ? *agents + 1 : *agents - 1;
}

/// Returns the host of "...;tcp://10.0.0.1,172.17.0.1:41123;tcp6://...", or an empty string.
std::string host_of_uri(const std::string& uri) {
  if (const auto at = uri.find("tcp://"); at != std::string::npos)
    return uri.substr(at + 6, uri.find_first_of(",:;", at + 6) - (at + 6));
  const auto at = uri.find("tcp6://[");
  if (at == std::string::npos) return "";
  return uri.substr(at + 8, uri.find_first_of(",]", at + 8) - (at + 8));
}

/// Returns mpirun's host from the name that mpirun gives its job, "prterun-<host>-<pid>@1", or an empty string.
std::string host_of_job(const std::string& name) {
  const auto begin = name.find('-'), end = name.rfind('-');
  if (begin == end || name.find('@', end) == std::string::npos) return "";
  const std::string host = name.substr(begin + 1, end - begin - 1);
  return host.starts_with("localhost") || host.starts_with("127.") ? "" : host;  // every host's name for itself
}

void read_open_mpi(Variables& variables, Launched& launched) {
  launched.advice = "pass it on: mpirun -x MASTER_ADDR=<the host of rank 0> ...";
  launched.rank = variables.number("OMPI_COMM_WORLD_RANK");
  launched.world_size = stated_size(variables, "OMPI_COMM_WORLD_SIZE");
  launched.local_rank = variables.number("OMPI_COMM_WORLD_LOCAL_RANK");
  launched.local_world_size = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE");
  std::string host;
  std::optional<int> port;
  if (const auto uri = variables.text("OMPI_MCA_orte_hnp_uri")) {  // version 4: the URI of mpirun
    host = host_of_uri(*uri);
    // The lower 16 bits of a job's id number its parts.
    if (const auto id = parse_number<uint64_t>(uri->substr(0, uri->find('.')))) port = port_of_job(*id >> 16);
  } else if (const auto name = variables.text("PMIX_NAMESPACE")) {
    // Version 5. PMIX_SERVER_URI* names the daemon of each host, not mpirun.
    host = host_of_job(*name);
    port = port_of_job(fnv1a(*name));
  }
  if (launched.master_addr.empty()) launched.master_addr = launched.all_local() ? kLoopback : host;
  if (!launched.master_port) launched.master_port = port;
}

void read_hydra(Variables& variables, Launched& launched) {
  launched.advice = "pass it on: mpiexec -genv MASTER_ADDR <the host of rank 0> ...";
  launched.rank = variables.number("PMI_RANK");
  launched.world_size = stated_size(variables, "PMI_SIZE");
  launched.local_rank = variables.number("MPI_LOCALRANKID");
  launched.local_world_size = variables.number("MPI_LOCALNRANKS");
  if (!launched.all_local()) return;
  if (launched.master_addr.empty()) launched.master_addr = kLoopback;
  // The process that serves all ranks of this host identifies the job. Without it, two jobs would meet at one port and
  // mix.
  if (launched.master_port) return;
  if (const auto proxy = variables.maker_of("PMI_FD"))
    launched.master_port = port_of_job(static_cast<uint64_t>(*proxy));
}

const char* slurm_size(const Variables& variables) {
  return variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

/// Whether srun's variables are set and describe more than one process: a single task is not distributed.
bool is_step(Variables& variables) {
  return variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_NODELIST") &&
         variables.number(slurm_size(variables)).value_or(0) > 1;
}

/// srun --mpi=pmi2 sets MPICH's variables too. Within an allocation, mpiexec has srun start one helper on each host, so
/// Slurm counts helpers, not ranks.
bool pmi_is_slurms(Variables& variables) {
  return is_step(variables) && variables.number("PMI_RANK") == variables.number("SLURM_PROCID") &&
         variables.number("PMI_SIZE") == variables.number(slurm_size(variables));
}

/// Returns the number of tasks on a node, from a list in Slurm's format: 2(x3),1 means two on each of the first three
/// nodes and one on the last.
std::optional<int> tasks_on_node(const std::string& list, int node) {
  for (std::size_t at = 0, comma; at < list.size(); at = comma + 1) {
    comma = std::min(list.find(',', at), list.size());
    const std::string entry = list.substr(at, comma - at);
    const auto open = entry.find("(x");
    const auto tasks = parse_number<int>(entry.substr(0, open));
    const auto nodes =
        open == std::string::npos ? 1 : parse_number<int>(entry.substr(open + 2, entry.size() - open - 3));
    if (!tasks || !nodes || *nodes < 1) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

void read_slurm(Variables& variables, Launched& launched) {
  launched.advice = "set MASTER_ADDR to the host of rank 0";
  launched.rank = variables.number("SLURM_PROCID");
  launched.world_size = stated_size(variables, slurm_size(variables));
  launched.local_rank = variables.number("SLURM_LOCALID");
  const std::string hosts = *variables.text("SLURM_STEP_NODELIST");
  const auto tasks = variables.text("SLURM_STEP_TASKS_PER_NODE");
  const auto node = variables.number("SLURM_NODEID");
  if (tasks && node && *node >= 0) launched.local_world_size = tasks_on_node(*tasks, *node);
  if (variables.number("SLURM_STEP_NUM_NODES") == 1) launched.local_world_size = launched.world_size;
  if (launched.master_addr.empty()) launched.master_addr = launched.all_local() ? kLoopback : first_host(hosts);
  const auto job = variables.number<uint64_t>("SLURM_JOB_ID");
  if (!launched.master_port && job) launched.master_port = port_of_job(*job);
}

void read_kubernetes(Variables& variables, Launched& launched) {
  launched.rank = variables.number("JOB_COMPLETION_INDEX");
  launched.world_size = variables.number("WORLD_SIZE");
  launched.local_rank = 0;
  launched.local_world_size = 1;
  launched.advice =
      "an Indexed Job does not state its size (set WORLD_SIZE to its completions) or its master (set TENDRIL_SERVICE "
      "to its headless service, or set MASTER_ADDR). Hosts have names if the pod template has a `subdomain` that "
      "names the service, and the service has `publishNotReadyAddresses: true`";
  if (!launched.master_addr.empty()) return;
  // Kubernetes calls the pods <job>-0, <job>-1, ...
  const auto host = variables.text("HOSTNAME"), service = variables.text("TENDRIL_SERVICE");
  std::string ending("-");
  ending += std::to_string(launched.rank.value_or(0));
  if (host && service && host->size() > ending.size() &&
      host->compare(host->size() - ending.size(), ending.size(), ending) == 0)
    launched.master_addr = host->substr(0, host->size() - ending.size()) + "-0." + *service;
}

void check_ranks(const Launched& launched) {
  const auto within = [](const char* what, const std::optional<int>& rank, const std::optional<int>& size) {
    TENDRIL_CHECK_AS(UsageError, !rank || !size || (*rank >= 0 && *rank < *size), "the ", what, " must be 0 to ",
                     *size - 1, " where there are ", *size, " processes, got ", *rank);
  };
  TENDRIL_CHECK_AS(UsageError, !launched.world_size || (*launched.world_size >= 1 && *launched.world_size <= 4096),
                   "the world size must be 1 to 4096, got ", *launched.world_size);
  within("rank", launched.rank, launched.world_size);
  within("local rank", launched.local_rank, launched.local_world_size);
}

}  // namespace

std::string Launched::text() const {
  const std::string read = variables.empty() ? "" : " (" + variables + ")";
  return by.empty() ? "no launcher was detected" + read : "started by " + by + read;
}

std::optional<int> creator_of_socket(int descriptor) {
  ucred maker{};
  socklen_t size = sizeof maker;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &maker, &size) != 0) return std::nullopt;
  return maker.pid > 0 && maker.pid != ::getpid() ? std::optional<int>(maker.pid) : std::nullopt;
}

Launched detect_launcher(const Environment& environment, const std::function<std::optional<int>(int)>& maker_of) {
  struct Launcher {
    const char* name;
    bool (*is_there)(Variables&);
    void (*read)(Variables&, Launched&);
  };
  static constexpr Launcher launchers[] = {
      {"torchrun", [](Variables& v) { return v.has("TORCHELASTIC_RUN_ID"); }, read_torchrun},
      {"hand", [](Variables& v) { return v.has("RANK") && v.has("MASTER_ADDR"); }, read_plain},
      {"Open MPI", [](Variables& v) { return v.has("OMPI_COMM_WORLD_RANK"); }, read_open_mpi},
      {"MPICH's Hydra", [](Variables& v) { return v.has("PMI_RANK") && !pmi_is_slurms(v); }, read_hydra},
      {"Slurm", is_step, read_slurm},
      {"Kubernetes", [](Variables& v) { return v.has("JOB_COMPLETION_INDEX"); }, read_kubernetes},
      {"hand", [](Variables& v) { return v.has("RANK"); }, read_plain},
  };
  Launched launched;
  Variables variables(environment, maker_of);
  try {
    const auto* const one = std::find_if(std::begin(launchers), std::end(launchers),
                                         [&](const Launcher& l) { return l.is_there(variables); });
    read_master(variables, launched);
    if (one != std::end(launchers)) {
      launched.by = one->name;
      one->read(variables, launched);
      check_ranks(launched);
    } else {
      launched.world_size = variables.number("WORLD_SIZE");
      if (variables.has("SLURM_JOB_ID") && !variables.has("SLURM_STEP_NODELIST"))
        launched.slurm_tasks =
            std::max(variables.number("SLURM_NTASKS").value_or(1), variables.number("SLURM_JOB_NUM_NODES").value_or(1));
      if (launched.slurm_tasks == 1) launched.slurm_tasks = 0;
    }
  } catch (const UsageError& e) {
    launched.variables = variables.read();
    throw UsageError(std::string(e.what()) + "; " + launched.text());
  }
  launched.variables = variables.read();
  return launched;
}

std::string first_host(const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const auto close = list.find(']', at);
    TENDRIL_CHECK_AS(UsageError, close != std::string::npos, "the list of hosts '", list, "' has a [ without a ]");
    host += list.substr(at + 1, std::min(list.find_first_of(",-", at + 1), close) - (at + 1));
    at = close;
  }
  TENDRIL_CHECK_AS(UsageError, !host.empty(), "the list of hosts '", list, "' does not name a first host");
  return host;
}

std::string srun_line(int tasks, const std::vector<std::string>& arguments) {
  std::string line = "srun -n " + std::to_string(tasks);
  for (const std::string& argument : arguments) {
    const bool plain = !argument.empty() && argument.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~!") == std::string::npos;
    line += plain ? " " : " '";
    for (const char c : argument) line.append(c == '\'' ? "'\\''" : std::string(1, c));
    line += plain ? "" : "'";
  }
  return arguments.empty() ? line + " <program>" : line;
}

}  // namespace tendril::rpc::detail
