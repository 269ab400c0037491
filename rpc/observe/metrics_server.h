#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tendril/rpc/worker.h"

namespace tendril::rpc {
class Agent;
}

namespace tendril::rpc::detail {

class Observer;

/// Returns the port on which a worker's metrics are served: `option` or, if that is -1, TENDRIL_METRICS_PORT plus the
/// rank; -1 if neither is set. `environment` returns a variable's value, or null. Throws UsageError for an invalid
/// port.
int metrics_port(int option, WorkerId rank, const std::function<const char*(const char*)>& environment);

/// Serves HTTP/1.1 on 127.0.0.1: GET /metrics (Prometheus' text format) and /status (status.h) of one agent, one
/// request per connection. Runs on the observer's thread. A client may send 4 KiB and has 5 s from accept to close. At
/// most 16 connections are open at once; a new one then replaces the oldest.
class MetricsServer {
 public:
  /// `port` 0 selects a free port. Throws UsageError if it cannot listen.
  MetricsServer(std::shared_ptr<Agent> agent, int port);
  ~MetricsServer();  ///< closes all connections; the port is free afterwards
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const noexcept { return port_; }

 private:
  class Impl;
  std::shared_ptr<Observer> observer_;
  std::shared_ptr<Impl> impl_;
  uint16_t port_ = 0;
};

}  // namespace tendril::rpc::detail
