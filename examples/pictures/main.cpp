// Prints the pictures of the documentation (scripts/pictures.sh). Graphs are in Graphviz's format, by autograd::dot:
//
//   ./pictures tape           an autograd graph in one process
//   ./pictures engine         the order in which the engine runs a graph
//   ./pictures distributed    the graph of the README's program: each worker draws its part, and a dashed edge joins a
//                             sent tensor with its RecvBackward on the other worker
//   ./pictures unused         the example with an unused result in docs/distributed_autograd.md
//   ./pictures stuck          the step at which FAST waits forever in that example
//   ./pictures forks          the references to an object, as its owner and its users list them (docs/rref.md)
//
// These are SVGs:
//
//   ./pictures strides        views of one storage
//   ./pictures plans          the order in which kernels walk over operands
//   ./pictures frame          the bytes of a request
//   ./pictures schedules      the schedules of a pipeline
//
// These print nothing; scripts/trace_picture.py draws their trace:
//
//   ./pictures call           makes calls
//   ./pictures step           trains with a distributed optimizer
#include <tendril/dist/autograd/graph.h>
#include <tendril/tendril.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../apps/graphs/graph_picture.h"
#include "pictures.h"

using namespace tendril;

Tensor weight() {
  static const Tensor w = full({3}, 2.0, TensorOptions{.requires_grad = true});
  return w;
}
Tensor& last_result() {
  static Tensor result;
  return result;
}
Tensor scale(const Tensor& x) { return last_result() = x * weight(); }
std::string graph_of_scale() { return autograd::dot(std::exchange(last_result(), {}), {.params = {{"w", weight()}}}); }

/// Returns a worker's part of a picture: the graph's lines in a frame, with nodes renamed after the worker.
std::string part(const std::string& worker, const std::string& graph) {
  const auto begin = graph.find("  n0");
  const std::string lines = graph.substr(begin, graph.rfind('}') - begin);
  return "  subgraph cluster_" + worker + " {\n  label=\"" + worker + "\" fontname=monospace\n" +
         std::regex_replace(lines, std::regex("\\bn([0-9]+)"), worker + "$1") + "  }\n";
}
/// Returns the name of the part's last box whose attributes match `what`.
std::string box(const std::string& part, const std::string& what) {
  std::smatch found;
  std::string name;
  for (auto rest = part; std::regex_search(rest, found, std::regex("([a-z]+[0-9]+) \\[[^\\]]*" + what));
       rest = found.suffix()) {
    name = found[1];
  }
  if (name.empty()) throw std::runtime_error("no box of " + what + " in:\n" + part);
  return name;
}

std::string distributed() {
  const Tensor x = tensor({1.0f, 2.0f, 3.0f}, {.requires_grad = true});
  const dist::autograd::Context context;
  const Tensor sent = x.exp();
  const Tensor loss = (rpc::rpc_sync<&scale>("bob", sent) * x).sum();
  const std::string alice = part("alice", autograd::dot({loss, sent}, {.params = {{"x", x}}}));
  const std::string bob = part("bob", rpc::rpc_sync<&graph_of_scale>("bob"));
  return "digraph {\n  graph [rankdir=LR]\n  node [align=left fontname=monospace fontsize=10 height=0.2 shape=box "
         "style=filled]\n" +
         alice + bob + "  " + box(alice, "darkolivegreen1") + " -> " + box(bob, "RecvBackward") +
         " [style=dashed label=request]\n  " + box(bob, "darkolivegreen1") + " -> " + box(alice, "RecvBackward") +
         " [style=dashed label=reply]\n}\n";
}

Tensor embed(const Tensor& x) { return x * weight(); }
Tensor metrics(const Tensor& h) { return h.mean(); }
Tensor decode(const Tensor& h) { return (h * weight()).sum(); }

std::string unused(bool stuck) {
  namespace graphs = dist::autograd;
  const Tensor l = full({3}, 0.5, TensorOptions{.requires_grad = true});
  const graphs::Context context;
  const Tensor h = rpc::rpc_sync<&embed>("bob", ones({3}));
  rpc::rpc_sync<&metrics>("bob", h);
  const Tensor loss = rpc::rpc_sync<&decode>("bob", (h * l).tanh());
  const graphs::RecordedGraph graph = graphs::graph(context, {loss});
  if (!stuck) return examples::dot(graph);
  const std::string steps = examples::dot_steps(graph, graphs::Mode::fast);
  return steps.substr(steps.rfind("digraph {"));
}

Tensor halves(const Tensor& x) { return x * 0.5; }

using Reference = rpc::RRef<Tensor>;
std::vector<Reference>& kept() {
  static std::vector<Reference> references;
  return references;
}
void keep(const Reference& reference) { kept().push_back(reference); }
void pass_on(const std::string& to) { rpc::rpc_sync<&keep>(to, kept().front()); }
void forget() { kept().clear(); }
/// Waits until owners have confirmed this worker's references, which may happen after the previous call's reply.
void settle() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto unconfirmed = [](const rpc::LiveReference& one) { return one.state != rpc::LiveReference::State::held; };
  while (std::ranges::any_of(rpc::references(), unconfirmed)) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("references were not confirmed within 10 s");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
/// Returns this worker's references to objects, one "id, state" per line.
std::string users_here() {
  settle();
  std::string lines;
  for (const rpc::LiveReference& one : rpc::references()) {
    if (one.user.id == rpc::get_worker_info().id) lines += "\\n" + one.id + ", " + rpc::to_string(one.state);
  }
  return lines;
}

/// Returns one arrow for each user of an object that this worker owns.
std::string users_of_objects_here() {
  std::string arrows;
  for (const rpc::LiveReference& one : rpc::references()) {
    if (one.owner.id == rpc::get_worker_info().id)
      arrows += "  " + one.user.name + " -> " + one.owner.name + " [style=dashed label=\"" + one.id + ", " +
                rpc::to_string(one.state) + "\"]\n";
  }
  return arrows;
}

/// alice creates an object on bob, which keeps a reference to it; carol passes its reference on to dave; bob passes one
/// to carol.
std::string forks() {
  const auto mine = rpc::remote<&halves>("bob", ones({4}));
  mine.to_here();
  rpc::rpc_sync<&keep>("bob", mine);
  rpc::rpc_sync<&keep>("carol", mine);
  rpc::rpc_sync<&pass_on>("carol", "dave");
  rpc::rpc_sync<&pass_on>("bob", "carol");
  std::string picture =
      "digraph {\n  graph [rankdir=LR ranksep=1.5]\n  node [fontname=monospace fontsize=10 shape=box style=filled "
      "fillcolor=lightblue]\n  edge [fontname=monospace fontsize=9]\n";
  for (const rpc::WorkerInfo& worker : rpc::get_worker_infos())
    picture += "  " + worker.name + " [label=\"" + worker.name + rpc::rpc_sync<&users_here>(worker.name) + "\"]\n";
  picture += "  bob [fillcolor=darkolivegreen1]\n" + rpc::rpc_sync<&users_of_objects_here>("bob") +
             "  alice -> carol [label=\"a call\"]\n  carol -> dave [label=\"a call\"]\n  bob -> carol [label=\"a "
             "call\"]\n}\n";
  for (const char* worker : {"dave", "carol", "bob"}) rpc::rpc_sync<&forget>(worker);
  return picture;
}

Tensor asks_back(const Tensor& x) { return rpc::rpc_sync<&halves>("alice", x) + x; }
std::string calls() {
  for (int i = 0; i < 100; ++i) rpc::rpc_sync<&asks_back>("bob", ones({4}));
  return "";
}

/// Trains parameters on bob and carol.
std::string steps() {
  const auto parameter = [](const char* owner) { return rpc::remote<&weight>(owner); };
  const std::vector<rpc::RRef<Tensor>> parameters{parameter("bob"), parameter("carol")};
  dist::DistributedOptimizer<optim::SGD> optimizer(parameters, {.lr = 0.01});
  for (int i = 0; i < 100; ++i) {
    const dist::autograd::Context context;
    const Tensor h = rpc::rpc_sync<&embed>("bob", ones({3}));
    dist::autograd::backward(context, {rpc::rpc_sync<&decode>("carol", h)});
    optimizer.step(context);
  }
  return "";
}

void run(int rank, const std::string& which) {
  rpc::InitOptions options;
  if (which == "frame") options.prepare = record_frames;
  rpc::init_rpc(std::vector<std::string>{"alice", "bob", "carol", "dave"}.at(static_cast<std::size_t>(rank)), options);
  if (rank == 0) {
    std::cout << (which == "distributed" ? distributed()
                  : which == "forks"     ? forks()
                  : which == "call"      ? calls()
                  : which == "step"      ? steps()
                  : which == "frame"     ? frame()
                                         : unused(which == "stuck"));
  }
  rpc::shutdown();
}

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which == "distributed" || which == "unused" || which == "stuck" || which == "call" || which == "frame")
    return rpc::launch<&run>(argc, argv, {.world_size = 2}, which);
  if (which == "step") return rpc::launch<&run>(argc, argv, {.world_size = 3}, which);
  if (which == "forks") return rpc::launch<&run>(argc, argv, {.world_size = 4}, which);
  if (which == "strides" || which == "schedules" || which == "plans" || which == "engine") {
    std::cout << (which == "strides"  ? strides()
                  : which == "plans"  ? plans()
                  : which == "engine" ? engine()
                                      : schedules());
    return 0;
  }
  if (which != "tape") {
    std::cerr
        << "pictures: expected tape, engine, distributed, unused, stuck, forks, call, step, strides, plans, frame or "
           "schedules, got '"
        << which << "'\n";
    return 2;
  }
  const Tensor x = ones({3}), w = ones({2, 3}, {.requires_grad = true});
  std::cout << autograd::dot((w * x).exp().sum(), {.params = {{"w", w}}, .show_saved = true});
}
