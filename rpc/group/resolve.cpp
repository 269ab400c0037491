#include "tendril/rpc/group/resolve.h"

#include <algorithm>
#include <chrono>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/transport/network.h"

namespace tendril::rpc::detail {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

std::vector<asio::ip::address> look_up(const std::string& host, error_code& error) {
  return network().look_up(host, error);
}

asio::ip::address resolve(const std::string& host, Clock::time_point deadline, const std::string& advice,
                          const LookUp& look_up) {
  error_code error;
  auto literal = asio::ip::make_address(host, error);
  if (!error) return literal;
  for (std::chrono::milliseconds pause = 50ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 2s)) {
    error = {};
    const auto addresses = look_up(host, error);
    const auto v4 = std::find_if(addresses.begin(), addresses.end(), [](const auto& one) { return one.is_v4(); });
    if (v4 != addresses.end()) return *v4;
    if (!addresses.empty()) return addresses.front();
    const auto now = Clock::now();
    if (now >= deadline)
      throw TimeoutError("the host of rank 0, '" + host + "' (master_addr, MASTER_ADDR), has no address: " +
                         (error ? error.message() : "none is listed") + (advice.empty() ? "" : "; " + advice));
    sleep_for(std::min<Clock::duration>(pause, deadline - now));
  }
}

}  // namespace tendril::rpc::detail
