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

/// Where a worker's metrics are served: `option`, or where that is -1, TENDRIL_METRICS_PORT plus the rank. -1: nowhere.
/// `environment` returns a variable's value, or null. Throws UsageError for what is no port.
int metrics_port(int option, WorkerId rank, const std::function<const char*(const char*)>& environment);

/// HTTP/1.1 on 127.0.0.1: GET /metrics (Prometheus' text) and /status (status.h) of one agent, one request a
/// connection. Runs on the observer's thread. What a client may use is bounded: 4 KiB of request, 5 s from accept to
/// close, 16 connections at once, of which the oldest gives way to a new one.
class MetricsServer {
 public:
  /// Port 0: a free one. Throws UsageError if it cannot listen.
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
