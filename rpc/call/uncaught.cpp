#include "tendril/rpc/call/uncaught.h"

#include <cxxabi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <typeinfo>

#include "tendril/rpc/system/mutex.h"
#include "tendril/rpc/system/spawn_protocol.h"
#include "tendril/rpc/wire/type_name.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::rpc::detail {
namespace {

std::array<char, 256> worker_name;  // not a std::string: the handler may run while static objects are destroyed
const auto worker_name_switched = tendril::detail::of_each_process([]() -> auto& { return worker_name; });
std::terminate_handler previous_handler = nullptr;

bool is_default(std::terminate_handler handler) {
#ifdef __GLIBCXX__
  return handler == nullptr || handler == __gnu_cxx::__verbose_terminate_handler || handler == std::abort;
#else
  return handler == nullptr || handler == std::abort;
#endif
}

[[noreturn]] void report_and_end() {
  if (std::current_exception() != nullptr) {
    const std::string who =
        worker_name[0] == '\0' ? "this process" : std::string("worker '") + worker_name.data() + "'";
    std::fprintf(stderr, "rpc: %s ends because of an uncaught exception: %s\n", who.c_str(),
                 describe_current_exception().c_str());
    if (is_default(previous_handler)) std::_Exit(kFailedExitCode);
  }
  if (previous_handler != nullptr) previous_handler();
  std::abort();
}

}  // namespace

std::string describe_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  std::string name = type != nullptr ? type_name(*type) : "unknown exception";
  try {
    throw;
  } catch (const std::exception& e) {
    return name + ": " + e.what();
  } catch (...) {
    return name;
  }
}

void report_uncaught_as(const std::string& worker) {
  static Mutex mutex;
  const std::lock_guard lock(mutex);
  if (!worker.empty()) std::snprintf(worker_name.data(), worker_name.size(), "%s", worker.c_str());
  if (std::get_terminate() != report_and_end) previous_handler = std::set_terminate(report_and_end);
}

}  // namespace tendril::rpc::detail
