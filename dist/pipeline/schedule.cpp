#include "tendril/dist/pipeline/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tendril/tensor/error.h"

namespace tendril::dist::pipeline {

namespace {

Schedule empty(const char* name, int workers, int micro_batches, int stages_per_worker) {
  TENDRIL_CHECK(workers >= 1, name, ": workers: got ", workers, ", expected at least 1");
  TENDRIL_CHECK(micro_batches >= 1, name, ": micro_batches: got ", micro_batches, ", expected at least 1");
  TENDRIL_CHECK(stages_per_worker >= 1, name, ": stages_per_worker: got ", stages_per_worker, ", expected at least 1");
  return {name, workers, workers * stages_per_worker, micro_batches,
          std::vector<std::vector<Action>>(static_cast<std::size_t>(workers))};
}

/// `warm_up` forwards, then forwards and backwards in turn, then the remaining backwards. `forward(i)` and
/// `backward(i)` return a worker's i-th action of each kind.
template <class Forward, class Backward>
std::vector<Action> alternate(int count, int warm_up, const Forward& forward, const Backward& backward) {
  std::vector<Action> actions;
  // task 3.4: `count` forwards and backwards into `actions`, in that order
  for (int i = 0; i < warm_up; ++i) actions.push_back(forward(i));
  for (int i = 0; i < count; ++i) {
    if (i + warm_up < count) actions.push_back(forward(i + warm_up));
    actions.push_back(backward(i));
  }
  // end of task
  return actions;
}

std::string text_of(const Action& action) {
  return std::string(action.work == Work::forward ? "forward" : "backward") + " of micro-batch " +
         std::to_string(action.micro_batch) + " at stage " + std::to_string(action.stage);
}

/// When each action ended; negative until it has run.
class Done {
 public:
  explicit Done(const Schedule& schedule)
      : stages_(schedule.stages),
        micro_batches_(schedule.micro_batches),
        at_(2 * static_cast<std::size_t>(stages_) * static_cast<std::size_t>(micro_batches_), -1) {}
  double& at(Work work, int stage, int micro_batch) {
    const int row = (work == Work::forward ? 0 : stages_) + stage;
    return at_[static_cast<std::size_t>(row) * static_cast<std::size_t>(micro_batches_) +
               static_cast<std::size_t>(micro_batch)];
  }
  /// Whether `action` depends on an action that has not run, which is stored in `what`. Otherwise `ready` is when all
  /// that it depends on had ended.
  bool missing(const Action& action, Action& what, double& ready) {
    ready = 0;
    const auto need = [&](Work work, int stage) {
      const double when = at(work, stage, action.micro_batch);
      if (when < 0) what = {work, stage, action.micro_batch};
      ready = std::max(ready, when);
      return when < 0;
    };
    if (action.work == Work::forward) return action.stage > 0 && need(Work::forward, action.stage - 1);
    if (need(Work::forward, action.stage)) return true;
    return action.stage + 1 < stages_ && need(Work::backward, action.stage + 1);
  }

 private:
  int stages_, micro_batches_;
  std::vector<double> at_;
};

void check(const Schedule& s) {
  const std::string op = "pipeline schedule '" + s.name + "': ";
  TENDRIL_CHECK(s.workers >= 1 && s.micro_batches >= 1 && s.stages >= s.workers && s.stages % s.workers == 0, op,
                "got ", s.workers, " workers, ", s.stages, " stages, ", s.micro_batches, " micro-batches");
  TENDRIL_CHECK(s.of.size() == static_cast<std::size_t>(s.workers), op, "got ", s.of.size(), " lists of actions for ",
                s.workers, " workers");
  std::vector<char> seen(2 * static_cast<std::size_t>(s.stages) * static_cast<std::size_t>(s.micro_batches), 0);
  for (int worker = 0; worker < s.workers; ++worker) {
    for (const Action& action : s.of[static_cast<std::size_t>(worker)]) {
      TENDRIL_CHECK(action.stage >= 0 && action.stage < s.stages && action.micro_batch >= 0 &&
                        action.micro_batch < s.micro_batches &&
                        (action.work == Work::forward || action.work == Work::backward),
                    op, "worker ", worker, ": ", text_of(action), " is out of range");
      TENDRIL_CHECK(s.worker_of(action.stage) == worker, op, "worker ", worker, ": ", text_of(action), " is worker ",
                    s.worker_of(action.stage), "'s");
      const int row = (action.work == Work::forward ? 0 : s.stages) + action.stage;
      char& mark = seen[static_cast<std::size_t>(row) * static_cast<std::size_t>(s.micro_batches) +
                        static_cast<std::size_t>(action.micro_batch)];
      TENDRIL_CHECK(mark == 0, op, "worker ", worker, ": ", text_of(action), " occurs twice");
      mark = 1;
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const int row = static_cast<int>(i) / s.micro_batches;
    const Action action{row < s.stages ? Work::forward : Work::backward, row % s.stages,
                        static_cast<int>(i) % s.micro_batches};
    TENDRIL_CHECK(seen[i] != 0, op, "worker ", s.worker_of(action.stage), ": ", text_of(action), " is missing");
  }
}

}  // namespace

Schedule gpipe(int workers, int micro_batches) {
  Schedule schedule = empty("gpipe", workers, micro_batches, 1);
  for (int w = 0; w < workers; ++w) {
    schedule.of[static_cast<std::size_t>(w)] = alternate(
        micro_batches, micro_batches,
        [&](int i) {
          return Action{Work::forward, w, i};
        },
        [&](int i) {
          return Action{Work::backward, w, i};
        });
  }
  return schedule;
}

Schedule one_forward_one_backward(int workers, int micro_batches) {
  Schedule schedule = empty("one_forward_one_backward", workers, micro_batches, 1);
  for (int w = 0; w < workers; ++w) {
    schedule.of[static_cast<std::size_t>(w)] = alternate(
        micro_batches, std::min(micro_batches, workers - w - 1),
        [&](int i) {
          return Action{Work::forward, w, i};
        },
        [&](int i) {
          return Action{Work::backward, w, i};
        });
  }
  return schedule;
}

Schedule interleaved(int workers, int micro_batches, int stages_per_worker) {
  Schedule schedule = empty("interleaved", workers, micro_batches, stages_per_worker);
  TENDRIL_CHECK(micro_batches % workers == 0, "interleaved: micro_batches: got ", micro_batches,
                ", expected a multiple of the number of workers, ", workers);
  const int count = micro_batches * stages_per_worker;
  for (int w = 0; w < workers; ++w) {
    // A worker runs a group of `workers` micro-batches through all its stages before it starts the next group.
    const auto micro_batch = [&](int i) { return i / (workers * stages_per_worker) * workers + i % workers; };
    const auto turn = [&](int i) { return i / workers % stages_per_worker; };
    const int warm_up = std::min(count, 2 * (workers - w - 1) + (stages_per_worker - 1) * workers);
    schedule.of[static_cast<std::size_t>(w)] = alternate(
        count, warm_up,
        [&](int i) {
          return Action{Work::forward, turn(i) * workers + w, micro_batch(i)};
        },
        [&](int i) {
          return Action{Work::backward, (stages_per_worker - 1 - turn(i)) * workers + w, micro_batch(i)};
        });
  }
  return schedule;
}

double Timeline::idle_share() const {
  const double all = duration * static_cast<double>(busy.size());
  return all > 0 ? 1 - std::accumulate(busy.begin(), busy.end(), 0.0) / all : 0;
}

Timeline simulate(const Schedule& schedule, const Costs& costs) {
  TENDRIL_CHECK(costs.forward > 0 && costs.backward > 0, "simulate: costs must be positive, got ", costs.forward,
                " and ", costs.backward);
  check(schedule);
  const auto workers = static_cast<std::size_t>(schedule.workers);
  Timeline timeline{.busy = std::vector<double>(workers), .peak = std::vector<int>(workers)};
  timeline.spans.resize(workers);
  std::vector<std::size_t> next(workers);
  std::vector<double> free_at(workers);
  std::vector<int> kept(workers);
  Done done(schedule);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t w = 0; w < workers; ++w) {
      for (; next[w] < schedule.of[w].size(); ++next[w], progress = true) {
        const Action& action = schedule.of[w][next[w]];
        Action missing;
        double ready = 0;
        if (done.missing(action, missing, ready)) break;
        const double begin = std::max(ready, free_at[w]);
        const double end = begin + (action.work == Work::forward ? costs.forward : costs.backward);
        done.at(action.work, action.stage, action.micro_batch) = end;
        timeline.spans[w].push_back({action, begin, end});
        timeline.busy[w] += end - begin;
        free_at[w] = end;
        kept[w] += action.work == Work::forward ? 1 : -1;
        timeline.peak[w] = std::max(timeline.peak[w], kept[w]);
        timeline.duration = std::max(timeline.duration, end);
      }
    }
  }
  std::string stuck;
  for (std::size_t w = 0; w < workers; ++w) {
    if (next[w] == schedule.of[w].size()) continue;
    const Action& action = schedule.of[w][next[w]];
    Action missing;
    double ready = 0;
    done.missing(action, missing, ready);
    stuck += (stuck.empty() ? "worker " : "; worker ") + std::to_string(w) + " is to do " + text_of(action) +
             " and waits for " + text_of(missing) + " (worker " + std::to_string(schedule.worker_of(missing.stage)) +
             ")";
  }
  TENDRIL_CHECK(stuck.empty(), "pipeline schedule '", schedule.name, "' never ends: ", stuck);
  return timeline;
}

std::string draw(const Schedule& schedule, const Costs& costs) {
  const Timeline timeline = simulate(schedule, costs);
  const double unit = std::min(costs.forward, costs.backward);
  const std::size_t width = std::to_string(schedule.micro_batches - 1).size() + 2;
  std::string text;
  for (std::size_t w = 0; w < timeline.spans.size(); ++w) {
    std::string line("w");
    line.append(std::to_string(w)).append(" |");
    const std::size_t start = line.size();
    for (const Span& span : timeline.spans[w]) {
      const auto begin = start + width * static_cast<std::size_t>(std::lround(span.begin / unit));
      const auto end = start + width * static_cast<std::size_t>(std::lround(span.end / unit));
      line.resize(std::max(line.size(), end), ' ');
      std::string what = span.action.work == Work::forward ? " F" : " B";
      what.append(std::to_string(span.action.micro_batch));
      for (std::size_t i = 0; i < what.size(); ++i) line[begin + i] = what[i];
      for (std::size_t i = begin + what.size() + 1; i < end; ++i) line[i] = '-';
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace tendril::dist::pipeline
