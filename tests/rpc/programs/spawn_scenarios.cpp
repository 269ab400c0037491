// Scenarios of spawn_test: spawn_scenarios NAME calls spawn() in one particular way and prints the outcome.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "tendril/rpc/spawn.h"
#include "tendril/tensor/raw.h"

namespace rpc = tendril::rpc;
using namespace std::chrono_literals;

namespace {

/// Writes the line with one call, so that the lines of several processes do not mix.
void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(1, text.data(), text.size()) < 0) std::abort();
}

[[noreturn]] void wait_for_a_signal() {
  for (;;) ::pause();
}

void greet(int rank) { say("worker " + std::to_string(rank)); }
void greet_again(int rank) { say("again " + std::to_string(rank)); }

struct Weather {
  std::string name;
  double degrees = 0;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& name& degrees;
  }
};

void take_arguments(int rank, const std::string& text, double number, const std::vector<Weather>& weather,
                    tendril::Tensor tensor) {
  std::string line = std::to_string(rank);
  line.append(" ").append(text).append(" ").append(std::to_string(number));
  for (const Weather& w : weather) line.append(" ").append(w.name).append(" ").append(std::to_string(w.degrees));
  double sum = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) sum += tensor.data<float>()[i];
  line.append(" ").append(std::to_string(tensor.numel())).append(" ").append(std::to_string(sum));
  say(line);
}

void throw_at_1(int rank) {
  if (rank == 1) throw std::out_of_range("no such weather");
  wait_for_a_signal();
}

void exit_0_at_1(int rank) {
  if (rank == 1) std::exit(0);
  wait_for_a_signal();
}

void exit_3_at_1(int rank) {
  if (rank == 1) std::_Exit(3);
  wait_for_a_signal();
}

int return_4_at_2(int rank) { return rank == 2 ? 4 : 0; }
int return_256_at_2(int rank) { return rank == 2 ? 256 : 0; }

void killed_at_2(int rank) {
  if (rank == 2) ::raise(SIGKILL);
  wait_for_a_signal();
}

void wait_with_pid(int rank) {
  say("worker " + std::to_string(rank) + " " + std::to_string(::getpid()));
  wait_for_a_signal();
}

std::atomic<bool> asked_to_return{false};
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

/// Returns after SIGTERM.
void return_when_asked(int rank) {
  std::signal(SIGTERM, [](int) { asked_to_return = true; });
  sigset_t term, before;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, &before);  // so that it cannot arrive between the check and the wait
  say("worker " + std::to_string(rank) + " " + std::to_string(::getpid()));
  while (!asked_to_return) ::sigsuspend(&before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
void return_or_throw_when_asked(int rank) {
  return_when_asked(rank);
  if (rank == 1) throw std::runtime_error("the disk is full");
}

void ignore_sigterm(int rank) {
  if (rank == 0) {
    std::signal(SIGTERM, SIG_IGN);
    say("deaf " + std::to_string(::getpid()));
    wait_for_a_signal();
  }
  ::raise(SIGSTOP);  // stopped: SIGTERM alone would not end it either
}

void list_descriptors(int rank) {
  std::string list = "descriptors of ";
  list.append(std::to_string(rank)).append(":");
  std::map<int, bool> open;
  for (int fd = 0; fd < 1024; ++fd)
    if (const int flags = ::fcntl(fd, F_GETFD); flags >= 0) open[fd] = (flags & FD_CLOEXEC) != 0;
  for (const auto& [fd, close_on_exec] : open)
    list.append(" ").append(std::to_string(fd)).append(close_on_exec ? "c" : "");
  say(list);
}

void meet_at_the_port(int rank) {
  const rpc::SpawnContext& context = *rpc::SpawnContext::current();
  if (context.rank != rank || std::atoi(std::getenv("RANK")) != rank || std::atoi(std::getenv("LOCAL_RANK")) != rank)
    throw std::logic_error("rank");
  if (context.world_size != 3 || std::string(std::getenv("WORLD_SIZE")) != "3") throw std::logic_error("world size");
  if (std::string(std::getenv("MASTER_ADDR")) != "127.0.0.1" ||
      std::atoi(std::getenv("MASTER_PORT")) != context.master_port)
    throw std::logic_error("master");
  if (context.num_threads < 1 || std::getenv("OMP_NUM_THREADS") == nullptr) throw std::logic_error("threads");
  if (std::getenv("TENDRIL_SPAWN") != nullptr) throw std::logic_error("mark");
  if (rank == 0) {
    for (int i = 0; i < 2; ++i)
      if (::accept(context.listener, nullptr, nullptr) < 0) throw std::logic_error("accept");
  } else {
    if (context.listener != -1) throw std::logic_error("listener");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(context.master_port);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) throw std::logic_error("connect");
  }
}

void spawn_more(int rank) {
  rpc::spawn<&greet>(2);
  say("outer " + std::to_string(rank));
}

int with_error(const std::function<void()>& run) {
  try {
    run();
    say("no error");
  } catch (const rpc::SpawnError& e) {
    say("rank " + std::to_string(e.rank()) + ": " + e.what());
  } catch (const rpc::RpcError& e) {
    say(std::string("error: ") + e.what());
  }
  return 0;
}

/// Allocates nothing, as required of a signal handler.
void note_signal(int signal) {
  char text[] = "own handler: \0\0\0";
  std::size_t size = std::strlen(text);
  if (signal >= 10) text[size++] = static_cast<char>('0' + signal / 10);
  text[size++] = static_cast<char>('0' + signal % 10);
  text[size++] = '\n';
  if (::write(1, text, size) < 0) std::abort();
}

int run(const std::string& name) {
  if (name == "greet") return with_error([] { rpc::spawn<&greet>(4); });
  if (name == "arguments")
    return with_error([] {
      tendril::Tensor tensor = tendril::raw::empty({100'000});
      for (int64_t i = 0; i < tensor.numel(); ++i) tensor.mutable_data<float>()[i] = static_cast<float>(i % 10);
      const std::vector<Weather> weather = {{"rain", 7}, {"sun", 21.5}};
      rpc::spawn<&take_arguments>(2, "a literal", 2, weather, tensor);
    });
  if (name == "three_times")
    return with_error([] {
      rpc::spawn<&greet>(2);
      rpc::spawn<&greet_again>(1);
      rpc::spawn<&greet>(2);
    });
  if (name == "nested") return with_error([] { rpc::spawn<&spawn_more>(2); });
  if (name == "throw") return with_error([] { rpc::spawn<&throw_at_1>(3); });
  if (name == "exit_0") return with_error([] { rpc::spawn<&exit_0_at_1>(3); });
  if (name == "exit_3") return with_error([] { rpc::spawn<&exit_3_at_1>(3); });
  if (name == "return_256") return with_error([] { rpc::spawn<&return_256_at_2>(3); });
  if (name == "return_4") return with_error([] { rpc::spawn<&return_4_at_2>(3); });
  if (name == "killed") return with_error([] { rpc::spawn<&killed_at_2>(4); });
  if (name == "wait") return with_error([] { rpc::spawn<&wait_with_pid>(3); });
  if (name == "wait_with_handler") {
    std::signal(SIGINT, note_signal);
    return with_error([] { rpc::spawn<&wait_with_pid>(3); });
  }
  if (name == "asked" || name == "asked_in_vain") {
    std::signal(SIGTERM, note_signal);
    if (name == "asked_in_vain")
      return with_error([] { rpc::spawn<&return_or_throw_when_asked>({.world_size = 3, .grace = 60s}); });
    return with_error([] { rpc::spawn<&return_when_asked>({.world_size = 3, .grace = 60s}); });
  }
  if (name == "timeout") return with_error([] { rpc::spawn<&wait_with_pid>({.world_size = 2, .timeout = 200ms}); });
  if (name == "stubborn")
    return with_error([] { rpc::spawn<&ignore_sigterm>({.world_size = 2, .grace = 50ms, .timeout = 300ms}); });
  if (name == "descriptors") {
    // Two descriptors that would be inherited; spawn() must not pass them on.
    if (::open("/dev/null", O_RDONLY) < 0 || ::dup2(1, 77) < 0) return 1;
    return with_error([] { rpc::spawn<&list_descriptors>(2); });
  }
  if (name == "environment") return with_error([] { rpc::spawn<&meet_at_the_port>(3); });
  if (name == "no_workers") return with_error([] { rpc::spawn<&greet>(0); });
  if (name == "without_worker_main") return with_error([] { rpc::spawn<&greet>(1); });
  if (name == "two_at_once") {
    std::jthread other([] { rpc::spawn<&greet>(3); });
    return with_error([] { rpc::spawn<&greet_again>(3); });
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "without_worker_main") rpc::worker_main(argc, argv);
  return run(argc > 1 ? argv[1] : "");
}
