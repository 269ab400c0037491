// Task 2.2: the continuations of a future. future_core.cpp, FutureCore::attach.
#include <tendril/rpc/future.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "course.h"

using course::check;
using course::same;
using tendril::rpc::Future;
using tendril::rpc::Promise;

int main() {
  check("a continuation does not run before the future is ready", [] {
    Promise<int> promise;
    int seen = 0;
    const auto then = promise.future().then([&](const Future<int>& ready) { seen = ready.wait(); });
    const std::string early = same(seen, 0);
    promise.set_value(7);
    return course::all({early, same(seen, 7)});
  });
  check("a continuation attached later runs immediately", [] {
    Promise<int> promise;
    promise.set_value(7);
    int seen = 0;
    const auto then = promise.future().then([&](const Future<int>& ready) { seen = ready.wait(); });
    return same(seen, 7);
  });
  check("several continuations run once each, in the order of attachment", [] {
    Promise<int> promise;
    std::string order;
    const auto future = promise.future();
    const auto a = future.then([&](const Future<int>&) { order += "a"; });
    const auto b = future.then([&](const Future<int>&) { order += "b"; });
    const auto c = future.then([&](const Future<int>&) { order += "c"; });
    promise.set_value(1);
    return same(order, std::string("abc"));
  });
  check("in a chain, a continuation's return value is the next future's result", [] {
    Promise<int> promise;
    Future<int> last = promise.future();
    for (int i = 0; i < 1000; ++i) last = last.then([](const Future<int>& ready) { return ready.wait() + 1; });
    promise.set_value(0);
    return same(last.wait(), 1000);
  });
  check("an error propagates down the chain", [] {
    Promise<int> promise;
    const auto last = promise.future().then([](const Future<int>& ready) { return ready.wait() + 1; });
    promise.set_error(std::make_exception_ptr(std::runtime_error("lost")));
    try {
      last.wait();
    } catch (const std::runtime_error& error) {
      return same(std::string(error.what()), std::string("lost"));
    }
    return std::string("expected an exception");
  });
  check("a waiting thread wakes up", [] {
    Promise<int> promise;
    const auto future = promise.future();
    std::jthread later([promise = std::move(promise)]() mutable { promise.set_value(3); });
    return same(future.wait(), 3);
  });
  return course::result();
}
