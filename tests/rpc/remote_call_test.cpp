#include "tendril/rpc/call.h"

#include <boost/test/unit_test.hpp>

#include "tendril/tensor/raw.h"
#include "tests/rpc/cluster.h"
#include "tests/rpc/messages.h"
#include "tests/rpc/raw_call.h"

BOOST_AUTO_TEST_SUITE(remote_call)

using namespace rpc_test;

struct Point {
  int x = 0, y = 0;
  friend bool operator==(const Point&, const Point&) = default;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& x& y;
  }
};

int add(int a, int b) { return a + b; }
Point mirrored(const Point& p) { return {p.y, p.x}; }
std::string greet(std::string_view name, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += std::string(name) + '!';
  return text;
}
double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}
std::atomic<int> touched{0};
void touch(int by) { touched += by; }
Tensor doubled(const Tensor& x) { return raw::binary(Binary::mul, x, 2); }
Tensor same(Tensor x) { return x; }
std::vector<Tensor> reversed(std::vector<Tensor> list) { return {list.rbegin(), list.rend()}; }
std::map<std::string, std::optional<Tensor>> named(std::map<std::string, std::optional<Tensor>> map) { return map; }
std::tuple<int, std::variant<int, std::string>> mixed(std::tuple<int, std::variant<int, std::string>> value) {
  return value;
}
int fail(const std::string& why) { throw std::out_of_range(why); }
int fail_oddly(int) { throw 42; }
struct alignas(64) Wide {
  int value = 0;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& value;
  }
  bool is_aligned() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
};
Wide widened(const Wide& x) { return {x.is_aligned() ? x.value + 1 : -1}; }
WorkerInfo echo_worker(const WorkerInfo& worker) { return worker; }

Future<int> later(int x) {
  auto promise = std::make_shared<Promise<int>>();
  std::thread([promise, x] { promise->set_value(x + 1); }).detach();
  return promise->future();
}
Future<int> later_failing(int) { return make_error_future<int>(std::make_exception_ptr(std::out_of_range("later"))); }
Future<int> no_future(int) { return {}; }
Task<std::string> twice(const std::string& text, int via) {
  // `text` is a reference to an argument: it lives as long as the call.
  const int first = co_await rpc_async<&add>(Cluster::agent(1), via, 1, 2);
  const int second = co_await rpc_async<&add>(Cluster::agent(1), via, first, 2);
  co_return text + std::to_string(second);
}
Task<void> nothing_later() { co_return; }

/// Calls back and forth between two workers, blocking, `depth` deep.
int ping_pong(int depth, int here) {
  if (depth == 0) return 0;
  return 1 + rpc_sync<&ping_pong>(Cluster::agent(here), 1 - here, depth - 1, 1 - here);
}

/// Fails at the bottom of a chain of calls between workers 0 and 1.
int fail_after(int depth, int here) {
  if (depth == 0) throw std::out_of_range("the bottom");
  return rpc_sync<&fail_after>(Cluster::agent(here), 1 - here, depth - 1, 1 - here);
}
/// Like `fail_after`, but the error keeps its type: for kind 0 an unknown function, for kind 1 a bad message.
int fail_typed(int kind, int depth, int here) {
  if (depth == 0 && kind == 1) throw MessageError("bad bytes");
  if (depth == 0) rpc_test::call(Cluster::agent(here), here, request(0x1F)).wait();
  return rpc_sync<&fail_typed>(Cluster::agent(here), 1 - here, kind, depth - 1, 1 - here);
}

struct Counter {
  Counter() = default;
  Counter(int, const std::string&) {}
  int get() { return 0; }
  template <class Archive>
  void serialize(Archive&, unsigned) {}
};
struct Named : Counter {};

std::promise<void> gate;
std::shared_future<void> gate_opened;
int wait_at_gate(int x) {
  blocking([] { gate_opened.wait(); });
  return x;
}
void close_gate() {
  gate = {};
  gate_opened = gate.get_future().share();
}

void takes_reference(int&) {}
struct LaterOptions : CallOptions {};
template <auto F, class... Args>
concept CanCall = requires(Args... args) {
  rpc_sync<F>(args...);
};

struct Plain {
  int value = 0;
};
static_assert(requires { tendril::rpc::remote<Plain>("w", {}); });  // {}: default CallOptions

BOOST_AUTO_TEST_CASE(over_aligned_arguments_and_results_are_aligned) {
  Cluster cluster(2);
  for (int i = 0; i < 20; ++i) {
    const Future<Wide> result = rpc_async<&widened>(cluster[0], 1, Wide{i});
    BOOST_TEST(result.wait().value == i + 1);
    BOOST_TEST(result.wait().is_aligned());
  }
}

BOOST_AUTO_TEST_CASE(calls_accept_name_rank_or_info) {
  Cluster cluster(2);
  BOOST_TEST(rpc_sync<&add>(cluster[0], "w1", 1, 2) == 3);
  BOOST_TEST(rpc_sync<&add>(cluster[0], std::string("w1"), 1, 2) == 3);
  BOOST_TEST(rpc_sync<&add>(cluster[0], 1, 3, 4) == 7);
  BOOST_TEST(rpc_sync<&add>(cluster[0], int64_t{1}, 3, 4) == 7);
  BOOST_TEST(rpc_sync<&add>(cluster[0], cluster[1].self(), 5, 6) == 11);
  BOOST_TEST(rpc_sync<&add>(cluster[1], "w0", 1, 2) == 3);
}

BOOST_AUTO_TEST_CASE(unknown_worker_is_an_immediate_error) {
  Cluster cluster(2);
  BOOST_TEST(contains(message_of<UsageError>([&] { rpc_async<&add>(cluster[0], "nobody", 1, 2); }), "nobody"));
  BOOST_TEST(contains(message_of<UsageError>([&] { rpc_async<&add>(cluster[0], 7, 1, 2); }), "7"));
  BOOST_TEST(contains(message_of<UsageError>([&] { rpc_async<&add>(cluster[0], -1, 1, 2); }), "-1"));
  message_of<UsageError>([&] { rpc_async<&add>(cluster[0], int64_t{1} << 40, 1, 2); });
}

BOOST_AUTO_TEST_CASE(results_equal_local_ones) {
  Cluster cluster(2);
  for (const int to : {0, 1}) {  // 0 is a self-call
    BOOST_TEST((rpc_sync<&mirrored>(cluster[0], to, Point{1, 2}) == Point{2, 1}));
    BOOST_TEST(rpc_sync<&greet>(cluster[0], to, "you", 2) == "you!you!");
    BOOST_TEST(rpc_sync<&sum>(cluster[0], to, std::vector<double>{1, 2, 3.5}) == 6.5);
    BOOST_TEST((rpc_sync<&echo_worker>(cluster[0], to, cluster[1].self()) == cluster[1].self()));
    const std::tuple<int, std::variant<int, std::string>> value{1, "x"};
    BOOST_TEST((rpc_sync<&mixed>(cluster[0], to, value) == value));
    touched = 0;
    rpc_sync<&touch>(cluster[0], to, 5);
    BOOST_TEST(touched == 5);
  }
}

BOOST_AUTO_TEST_CASE(arguments_are_converted_to_parameter_types) {
  Cluster cluster(2);
  BOOST_TEST(rpc_sync<&add>(cluster[0], 1, 2.9, short{3}) == 5);
  const char* name = "me";
  BOOST_TEST(rpc_sync<&greet>(cluster[0], 1, name, 1L) == "me!");
  BOOST_TEST(rpc_sync<&greet>(cluster[0], 1, std::string("me"), 1) == "me!");
}

BOOST_AUTO_TEST_CASE(invalid_calls_do_not_compile) {
  static_assert(Callable<&add, int, double>);
  static_assert(!Callable<&add, int>);
  static_assert(!Callable<&add, int, int, int>);
  static_assert(!Callable<&add, int, std::string>);
  static_assert(!Callable<&takes_reference, int&>);
  static_assert(CanCall<&add, int, int, int>);
  static_assert(CanCall<&add, const char*, CallOptions, int, int>);
  static_assert(CanCall<&add, const char*, LaterOptions, int, int>);
  static_assert(!CanCall<&add, int, int, const char*>);
  static_assert(!CanCall<&add, double, int, int>);  // 1.5 is not a rank
  static_assert(RemotelyConstructible<std::string, const char*>);
  static_assert(!RemotelyConstructible<Point, const char*>);
  static_assert(std::is_same_v<ResultOf<&later>, int>);
  static_assert(std::is_same_v<ResultOf<&twice>, std::string>);
  static_assert(std::is_same_v<ResultOf<&nothing_later>, void>);
}

BOOST_AUTO_TEST_CASE(tensors_keep_strides_in_any_container) {
  Cluster cluster(2);
  const Tensor x = raw::view(raw::arange(0, 24, 1, kFloat32), {4, 6});
  for (const int to : {0, 1}) {
    BOOST_TEST(rpc::testing::same_elements(rpc_sync<&doubled>(cluster[0], to, x), doubled(x)));
    const Tensor transposed = raw::transpose(x, 0, 1);
    const Tensor arrived = rpc_sync<&same>(cluster[0], to, transposed);
    BOOST_TEST(arrived.strides() == transposed.strides());
    BOOST_TEST(rpc::testing::same_elements(arrived, transposed));
    BOOST_TEST((arrived.storage() != x.storage()));
    const Tensor pixels = raw::contiguous(raw::view(x, {2, 3, 2, 2}), MemoryFormat::channels_last);
    const Tensor seen = rpc_sync<&same>(cluster[0], to, pixels);
    BOOST_TEST(seen.is_contiguous(MemoryFormat::channels_last));
    BOOST_TEST(!seen.is_contiguous());
    BOOST_TEST(rpc::testing::same_elements(seen, pixels));

    const auto list = rpc_sync<&reversed>(cluster[0], to, std::vector<Tensor>{x, transposed, Tensor()});
    BOOST_REQUIRE_EQUAL(list.size(), 3u);
    BOOST_TEST(!list[0].defined());
    BOOST_TEST(rpc::testing::same_elements(list[2], x));

    const std::map<std::string, std::optional<Tensor>> map{{"x", x}, {"none", std::nullopt}};
    const auto back = rpc_sync<&named>(cluster[0], to, map);
    BOOST_TEST(rpc::testing::same_elements(*back.at("x"), x));
    BOOST_TEST(!back.at("none"));
  }
}

BOOST_AUTO_TEST_CASE(hundred_calls_may_be_in_flight) {
  Cluster cluster(2);
  std::vector<Future<Tensor>> futures;
  for (int i = 0; i < 100; ++i) futures.push_back(rpc_async<&doubled>(cluster[0], 1, raw::full({i * 100 + 1}, i)));
  const std::vector<Tensor> results = wait_all(futures);
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(results[static_cast<std::size_t>(i)].numel() == i * 100 + 1);
    BOOST_TEST(raw::select(results[static_cast<std::size_t>(i)], 0, 0).item<double>() == 2 * i);
  }
}

BOOST_AUTO_TEST_CASE(arguments_are_captured_at_the_call) {
  Cluster cluster(2, {.num_worker_threads = 1});
  close_gate();
  const Future<int> busy = rpc_async<&wait_at_gate>(cluster[0], 1, 0);
  std::vector<double> values{1, 2, 3};
  const Future<double> total = rpc_async<&sum>(cluster[0], 1, values);
  values.assign(10, 100.0);
  gate.set_value();
  BOOST_TEST(total.wait() == 6.0);
  busy.wait();
}

BOOST_AUTO_TEST_CASE(exceptions_arrive_with_type_and_text) {
  Cluster cluster(2);
  for (const int to : {0, 1}) {
    try {
      rpc_sync<&fail>(cluster[0], to, "line one\nline \"two\"");
      BOOST_ERROR("nothing was thrown");
    } catch (const RemoteError& error) {
      BOOST_TEST(error.worker() == "w" + std::to_string(to));
      BOOST_TEST(error.type() == "std::out_of_range");
      BOOST_TEST(error.message() == "line one\nline \"two\"");
    }
    const Future<int> failing = rpc_async<&fail>(cluster[0], to, "again");
    for (int i = 0; i < 3; ++i) BOOST_CHECK_THROW(failing.wait(), RemoteError);
    BOOST_CHECK_THROW(rpc_sync<&fail_oddly>(cluster[0], to, 1), RemoteError);
  }
}

BOOST_AUTO_TEST_CASE(function_may_answer_later) {
  Cluster cluster(2, {.num_worker_threads = 1});
  BOOST_TEST(rpc_sync<&later>(cluster[0], 1, 41) == 42);
  BOOST_TEST(rpc_sync<&twice>(cluster[0], 1, "five: ", 0) == "five: 5");
  rpc_sync<&nothing_later>(cluster[0], 1);
  BOOST_CHECK_THROW(rpc_sync<&later_failing>(cluster[0], 1, 0), RemoteError);
  BOOST_TEST(contains(message_of<RpcError>([&] { rpc_sync<&no_future>(cluster[0], 1, 0); }), "empty Future"));
}

BOOST_AUTO_TEST_CASE(nested_blocking_calls_work_with_one_thread) {
  Cluster cluster(2, {.num_worker_threads = 1});
  BOOST_TEST(rpc_sync<&ping_pong>(cluster[0], 1, 20, 1) == 20);
}

BOOST_AUTO_TEST_CASE(call_has_its_own_deadline) {
  Cluster cluster(2);
  close_gate();
  const std::string text =
      message_of<TimeoutError>([&] { rpc_sync<&wait_at_gate>(cluster[0], 1, {.timeout = 20ms}, 1); });
  BOOST_TEST(contains(text, "call of remote_call::wait_at_gate on worker 'w1' (rank 1) timed out after 0.02 s"), text);
  BOOST_TEST(contains(text, "{.timeout = 0s}"), text);
  const Future<int> patient = rpc_async<&wait_at_gate>(cluster[0], 1, {.timeout = 0ms}, 1);
  gate.set_value();
  BOOST_TEST(patient.wait() == 1);
}

BOOST_AUTO_TEST_CASE(unserved_function_error_names_the_remedy) {
  static const Functions nothing([](Functions&) {});
  Cluster cluster(2, {}, nothing);
  const auto text = [](auto call) { return message_of<UnknownFunctionError>(call); };
  BOOST_TEST(text([&] { rpc_sync<&add>(cluster[0], 1, 1, 2); }) ==
             "worker 'w1': it does not serve remote_call::add: its program neither calls it nor registers it with "
             "rpc::serve<&remote_call::add>()");
  BOOST_TEST(
      contains(text([&] { remote<&add>(cluster[0], 1, 1, 2).to_here(); }), "rpc::serve_remote<&remote_call::add>()"));
  const std::string constructor = text([&] { remote<Counter>(cluster[0], 1, 1, "name").to_here(); });
  BOOST_TEST(contains(constructor, "remote_call::Counter's constructor"), constructor);
  BOOST_TEST(contains(constructor, "rpc::serve_constructor<remote_call::Counter, int, std::string>()"), constructor);
  // A raw call of a function that this program does not have.
  BOOST_TEST(contains(text([&] { rpc_test::call(cluster[0], 1, request(0x1F)).wait(); }), "function 0x1f"));
}

BOOST_AUTO_TEST_CASE(unserved_method_error_names_the_remedy) {
  BOOST_TEST((rpc::detail::entry_of<rpc::detail::Method<Counter, &Counter::get>>().served.remedy ==
              "rpc::serve<&remote_call::Counter::get>()"));
  BOOST_TEST((rpc::detail::entry_of<rpc::detail::Method<Named, &Counter::get>>().served.remedy ==
              "rpc::serve<&remote_call::Counter::get, remote_call::Named>()"));
  BOOST_TEST((rpc::detail::entry_of<rpc::detail::CreatingMethod<Counter, &Counter::get>>().served.remedy ==
              "rpc::serve_remote<&remote_call::Counter::get>()"));
  BOOST_TEST(rpc::detail::entry_of<rpc::detail::Fetch<Counter>>().served.remedy ==
             "rpc::serve_to_here<remote_call::Counter>()");
  serve<&Counter::get>();  // the suggested remedies compile
  serve<&Counter::get, Named>();
  serve_remote<&Counter::get>();
  serve_constructor<Counter, int, std::string>();
  serve_to_here<Counter>();
}

BOOST_AUTO_TEST_CASE(nested_call_error_keeps_its_origin) {
  Cluster cluster(3);
  try {
    rpc_sync<&fail_after>(cluster[0], 1, 250, 1);
    BOOST_ERROR("nothing was thrown");
  } catch (const RemoteError& error) {
    BOOST_TEST(error.worker() == "w1");
    BOOST_TEST(error.type() == "std::out_of_range");
    BOOST_TEST(error.message() == "the bottom");
    BOOST_TEST(error.what() ==
               "error on worker 'w1' (by way of 'w0', 'w1', 'w0', 'w1' and 246 more): std::out_of_range: the bottom");
  }
  BOOST_TEST(message_of<RemoteError>([&] { rpc_sync<&fail_after>(cluster[2], 1, 1, 1); }) ==
             "error on worker 'w0' (by way of 'w1'): std::out_of_range: the bottom");
  // The unknown function is one that w0 calls on itself.
  const std::map<int, std::string> starts{
      {0, "worker 'w0' (by way of 'w0', 'w1', 'w0', 'w1'): it does not serve function 0x1f"},
      {1, "worker 'w0' (by way of 'w1', 'w0', 'w1'): bad bytes"}};
  for (const auto& [kind, start] : starts) {
    try {
      rpc_sync<&fail_typed>(cluster[2], 1, kind, 3, 1);
      BOOST_ERROR("nothing was thrown");
    } catch (const RpcError& error) {
      BOOST_TEST(std::string(error.what()).starts_with(start), error.what());
      BOOST_TEST((kind == 0 ? dynamic_cast<const UnknownFunctionError*>(&error) != nullptr
                            : dynamic_cast<const MessageError*>(&error) != nullptr));
    }
  }
}

BOOST_AUTO_TEST_CASE(unreadable_arguments_are_named) {
  Cluster cluster(2);
  Message bad;
  bad.function = rpc::detail::entry_of<rpc::detail::FreeFunction<&greet>>().id;
  bad.payload.resize(3);
  const std::string text = message_of<MessageError>([&] { rpc_test::call(cluster[0], 1, bad).wait(); });
  BOOST_TEST(contains(text, "argument 1 (std::string) of remote_call::greet"), text);
  BOOST_TEST(rpc_sync<&add>(cluster[0], 1, 1, 2) == 3);  // the connection is still usable
}

BOOST_AUTO_TEST_CASE(free_functions_require_init_rpc) {
  BOOST_TEST(contains(message_of<UsageError>([] { rpc_sync<&add>("w1", 1, 2); }), "init_rpc"));
}

BOOST_AUTO_TEST_CASE(free_functions_use_the_default_agent) {
  Cluster cluster(2);
  set_default_agent(std::shared_ptr<Agent>(std::shared_ptr<void>(), &cluster[0]));
  BOOST_TEST(rpc_sync<&add>("w1", 1, 2) == 3);
  BOOST_TEST(rpc_sync<&add>("w1", {.timeout = 5s}, 1, 2) == 3);
  BOOST_TEST(remote<&add>("w1", 1, 2).to_here() == 3);
  set_default_agent(nullptr);
}

BOOST_AUTO_TEST_CASE(call_after_shutdown_is_an_error) {
  Cluster cluster(2);
  cluster[0].shutdown();
  BOOST_CHECK_THROW(rpc_sync<&add>(cluster[0], 1, 1, 2), UsageError);
}

BOOST_AUTO_TEST_SUITE_END()
