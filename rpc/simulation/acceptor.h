#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tendril/rpc/group/simulated_launch.h"
#include "tendril/rpc/simulation/network.h"
#include "tendril/rpc/simulation/stream.h"
#include "tendril/rpc/threads/reactor.h"

namespace tendril::rpc::detail {

/// Accepts the connections to one port or Unix-domain socket of a worker.
class SimulatedAcceptor final : public Acceptor {
 public:
  SimulatedAcceptor(SimulatedNetwork& network, SimulatedWorker& worker, Reactor& reactor, std::string path,
                    boost::asio::ip::tcp::endpoint at)
      : network_(network), worker_(worker), reactor_(reactor), path_(std::move(path)), at_(std::move(at)) {}
  ~SimulatedAcceptor() override { close(); }

  std::string unix_path() const override { return path_; }
  boost::asio::ip::tcp::endpoint tcp_endpoint() const override { return at_; }
  SimulatedWorker& worker() const noexcept { return worker_; }

  void wait(std::function<void(int error)> ready) override {
    if (closed_) return;
    ready_ = std::make_shared<std::function<void(int)>>(std::move(ready));
    if (!waiting_.empty()) tell();
  }
  Accepted accept() override {
    if (waiting_.empty()) return {};
    auto connection = std::move(waiting_.front());
    waiting_.pop_front();
    if (connection->errors[1] != 0) return {};
    const std::string from = connection->tcp ? connection->ends[0].address().to_string() : "a process of this user";
    return {.stream = std::make_unique<SimulatedStream>(network_, worker_, std::move(connection), 1), .from = from};
  }
  bool has_pending() noexcept override { return !waiting_.empty(); }
  void close() noexcept override {
    if (std::exchange(closed_, true)) return;
    const auto dropped = std::exchange(ready_, nullptr);  // destroyed last: it may own this
    if (path_.empty()) {
      const auto found = network_.tcp_.find({worker_.rank, at_.port()});
      if (found != network_.tcp_.end() && found->second == this) network_.tcp_.erase(found);
    } else {
      network_.unix_.erase(path_);
    }
    for (const auto& connection : std::exchange(waiting_, {}))
      if (!worker_.dead) network_.closed(*connection, 1, true);
  }
  void hide() noexcept override {
    if (!path_.empty()) network_.unix_.erase(path_);
  }

  void enqueue(std::shared_ptr<Connection> connection) {
    waiting_.push_back(std::move(connection));
    if (ready_ && waiting_.size() == 1) tell();
  }

 private:
  void tell() {
    // Only this object owns `ready_`, so `weak` expires when `close` drops it.
    post_to(reactor_, [this, weak = std::weak_ptr(ready_)] {
      const auto ready = weak.lock();
      if (!ready) return;
      ready_ = nullptr;
      (*ready)(0);
    });
  }

  SimulatedNetwork& network_;
  SimulatedWorker& worker_;
  Reactor& reactor_;
  const std::string path_;
  const boost::asio::ip::tcp::endpoint at_;
  std::shared_ptr<std::function<void(int)>> ready_;
  std::deque<std::shared_ptr<Connection>> waiting_;
  bool closed_ = false;
};

}  // namespace tendril::rpc::detail
