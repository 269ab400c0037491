#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tendril/autograd/hooks.h"
#include "tests/dist/group.h"

/// Random computations on several workers, and the same computations on one.
namespace dist_test {

/// Work of one worker in one call. Values are numbered, inputs first. A step adds one value; a call adds all its
/// results.
struct Program {
  struct Step {
    enum Kind : uint8_t { parameter, sine, add, multiply, scale_by_sum, detach, call };
    uint8_t kind = parameter;
    int32_t a = 0, b = 0;            // operands, or the index of a parameter
    std::vector<int32_t> arguments;  // of a call
    std::vector<Program> callee;     // of a call: exactly one
    template <class Archive>
    void serialize(Archive& archive, unsigned) {
      archive& kind& a& b& arguments& callee;
    }
  };
  int32_t worker = 0;
  int32_t run = 0;
  std::vector<Step> steps;
  std::vector<int32_t> results;
  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& worker& run& steps& results;
  }
};

/// Composition of a graph, measured while it was computed locally.
struct Shape {
  int64_t local_edges = 0, crossing_edges = 0;
  int64_t messages = 0, unused_messages = 0;
  int depth = 0;
  int64_t most_uses_of_a_parameter = 0;
};

inline constexpr int kWorkers = 4;
inline constexpr int kParameters = 3;

/// The parameters of every worker. The distributed run and the local run have separate sets.
using Parameters = std::array<std::array<Tensor, kParameters>, kWorkers>;

inline Parameters& distributed_parameters() {
  static Parameters parameters;
  return parameters;
}

std::vector<Tensor> run_program(const Program& program, const std::vector<Tensor>& inputs);  // called remotely

/// Runs programs. Derived classes define calls.
class Runner {
 public:
  explicit Runner(Parameters& parameters) : parameters_(parameters) {}
  virtual ~Runner() = default;

  std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> values = inputs;
    const auto value = [&](int32_t i) { return values.at(static_cast<std::size_t>(i)); };
    for (const Program::Step& step : program.steps) {
      switch (step.kind) {
        case Program::Step::parameter:
          values.push_back(
              parameters_.at(static_cast<std::size_t>(program.worker)).at(static_cast<std::size_t>(step.a)));
          used_parameter(program.worker, step.a);
          break;
        case Program::Step::sine:
          values.push_back(value(step.a).sin());
          break;
        case Program::Step::add:
          values.push_back(value(step.a) + value(step.b));
          break;
        case Program::Step::multiply:
          values.push_back(value(step.a) * value(step.b));
          break;
        case Program::Step::scale_by_sum:
          values.push_back(value(step.a) * value(step.b).sum().sin());
          break;
        case Program::Step::detach:
          values.push_back(value(step.a).detach());
          break;
        default: {
          std::vector<Tensor> arguments;
          for (const int32_t i : step.arguments) arguments.push_back(value(i));
          for (const Tensor& result : call(program.worker, step.callee.at(0), arguments)) values.push_back(result);
        }
      }
      count(step);
    }
    std::vector<Tensor> results;
    for (const int32_t i : program.results) results.push_back(value(i));
    return results;
  }

 protected:
  virtual std::vector<Tensor> call(int caller, const Program& callee, const std::vector<Tensor>& arguments) = 0;
  virtual void used_parameter(int, int) {}
  virtual void count(const Program::Step&) {}

 private:
  Parameters& parameters_;
};

class DistributedRunner final : public Runner {
 public:
  DistributedRunner() : Runner(distributed_parameters()) {}

 private:
  std::vector<Tensor> call(int caller, const Program& callee, const std::vector<Tensor>& arguments) override {
    return rpc::rpc_sync<&run_program>(Cluster::agent(caller), callee.worker, callee, arguments);
  }
};

/// Runs everything in this process. Measures the graph, and records which messages a distributed run would send and
/// which of them get a gradient.
class LocalRunner final : public Runner {
 public:
  explicit LocalRunner(Parameters& parameters) : Runner(parameters) {}

  /// Call this after the backward.
  Shape shape() const {
    Shape shape = shape_;
    shape.messages = static_cast<int64_t>(messages_.size());
    for (const auto& got_gradient : messages_) shape.unused_messages += !*got_gradient;
    for (const auto& of_worker : uses_) {
      for (const int64_t uses : of_worker)
        shape.most_uses_of_a_parameter = std::max(shape.most_uses_of_a_parameter, uses);
    }
    return shape;
  }

 private:
  std::vector<Tensor> call(int, const Program& callee, const std::vector<Tensor>& arguments) override {
    shape_.depth = std::max(shape_.depth, ++depth_);
    std::vector<Tensor> results = message(run(callee, message(arguments)));
    --depth_;
    return results;
  }
  std::vector<Tensor> message(const std::vector<Tensor>& tensors) {
    const auto got_gradient = std::make_shared<bool>(false);
    std::vector<Tensor> travelled;
    bool recorded = false;
    for (const Tensor& tensor : tensors) {
      if (!tensor.requires_grad()) {
        travelled.push_back(tensor);
        continue;
      }
      recorded = true;
      ++shape_.crossing_edges;
      travelled.push_back(tensor.clone());
      tendril::autograd::register_hook(travelled.back(), [got_gradient](const Tensor&) {
        *got_gradient = true;
        return Tensor();
      });
    }
    if (recorded) messages_.push_back(got_gradient);
    return travelled;
  }
  void used_parameter(int worker, int i) override {
    ++uses_.at(static_cast<std::size_t>(worker)).at(static_cast<std::size_t>(i));
  }
  void count(const Program::Step& step) override {
    if (step.kind == Program::Step::sine) shape_.local_edges += 1;
    if (step.kind == Program::Step::add || step.kind == Program::Step::multiply ||
        step.kind == Program::Step::scale_by_sum)
      shape_.local_edges += 2;
  }

  Shape shape_;
  int depth_ = 0;
  std::vector<std::shared_ptr<bool>> messages_;
  std::array<std::array<int64_t, kParameters>, kWorkers> uses_{};
};

/// Generates random programs. Wasteful ones (40%) leave results unused.
class ProgramGenerator {
 public:
  ProgramGenerator(uint64_t seed, int workers) : random_(seed), workers_(workers), wasteful_(chance(0.4)) {}

  Program root() {
    Program program = make(0, 0, 0);
    program.results.clear();
    const int roots = 1 + below(3);
    const int values = last_values_;
    // The last value depends on most of the others; further roots depend on fewer.
    program.results.push_back(values - 1);
    for (int i = 1; i < roots; ++i) program.results.push_back(values / 2 + below(values - values / 2));
    return program;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  Program make(int worker, int inputs, int depth) {
    Program program;
    program.worker = worker;
    int values = inputs;
    std::vector<int32_t> unread;  // values that nothing has read yet
    for (int32_t i = 0; i < inputs; ++i) unread.push_back(i);
    const auto step = [&](Program::Step made, int results = 1) {
      program.steps.push_back(std::move(made));
      for (int i = 0; i < results; ++i) unread.push_back(values++);
    };
    const auto operand = [&]() -> int32_t {
      if (!unread.empty() && chance(0.6)) {
        const auto at = static_cast<std::size_t>(below(static_cast<int>(unread.size())));
        const int32_t found = unread[at];
        unread.erase(unread.begin() + static_cast<std::ptrdiff_t>(at));
        return found;
      }
      return below(values);
    };
    step({.kind = Program::Step::parameter, .a = below(kParameters)});
    const int calls = depth >= 3 ? 0 : depth == 0 ? 2 + below(3) : below(3);
    for (int i = 0; i < calls; ++i) {
      if (chance(0.5)) step({.kind = Program::Step::parameter, .a = below(kParameters)});
      if (chance(0.6)) step(operation(operand(), operand()));
      Program::Step made{.kind = Program::Step::call};
      const int arguments = 1 + below(3);
      for (int j = 0; j < arguments; ++j) made.arguments.push_back(operand());
      const int other = chance(0.1) ? worker : (worker + 1 + below(workers_ - 1)) % workers_;  // sometimes this worker
      made.callee.push_back(make(other, arguments, depth + 1));
      const auto results = static_cast<int>(made.callee[0].results.size());
      const bool wasted = wasteful_ && chance(0.4);
      step(std::move(made), results);
      if (wasted) {
        for (int j = 0; j < results; ++j) unread.pop_back();
      }
    }
    // Combines the unread values, except those to be wasted.
    if (values >= 2 && chance(0.7)) step(operation(operand(), operand()));
    while (unread.size() > 1) {
      const int32_t a = unread.back();
      unread.pop_back();
      const int32_t b = unread.back();
      unread.pop_back();
      if (wasteful_ && chance(0.2)) {
        unread.push_back(a);
      } else {
        step(operation(a, b));
      }
    }
    program.results.push_back(values - 1);
    const int more = below(3);
    for (int i = 0; i < more; ++i) program.results.push_back(below(values));
    last_values_ = values;
    return program;
  }

  Program::Step operation(int32_t a, int32_t b) {
    if (wasteful_ && chance(0.05)) return {.kind = Program::Step::detach, .a = a};
    switch (below(4)) {
      case 0:
        return {.kind = Program::Step::sine, .a = a};
      case 1:
        return {.kind = Program::Step::multiply, .a = a, .b = b};
      case 2:
        return {.kind = Program::Step::scale_by_sum, .a = a, .b = b};
      default:
        return {.kind = Program::Step::add, .a = a, .b = b};
    }
  }

  std::mt19937_64 random_;
  const int workers_;
  const bool wasteful_;
  int last_values_ = 0;
};

}  // namespace dist_test
