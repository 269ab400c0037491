// How idle the workers of a pipeline are, beside what its schedule alone makes of equal stages and messages that take
// no time: two workers with equal stages, a thread each; a third process, which only waits, feeds them.
//
//     bench_dist_pipeline [BATCHES]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tendril/autograd/ops/loss.h"
#include "tendril/dist/pipeline/pipeline.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/sequential.h"
#include "tendril/rpc/default_agent.h"
#include "tendril/rpc/group.h"
#include "tendril/rpc/spawn.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/threads.h"

using namespace tendril;
namespace pp = dist::pipeline;

namespace pipeline_bench {

constexpr int64_t kWidth = 512, kRows = 128;  // of a micro-batch

/// So many layers of kWidth: a few milliseconds forward.
struct Part : nn::Module {
  explicit Part(int64_t count) {
    for (int64_t i = 0; i < count; ++i) layers.emplace<nn::Linear>(kWidth, kWidth);
    register_module("layers", layers);
  }
  Tensor forward(const Tensor& x) { return layers(x); }
  nn::Sequential layers;
};
Tensor mean_square(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const pp::Schedule& schedule, int batches) {
  rpc::Agent& agent = *rpc::default_agent();
  const int64_t layers = 8 / (schedule.stages / schedule.workers);
  std::vector<rpc::RRef<pp::Stage>> stages;
  for (int s = 0; s < schedule.stages; ++s) {
    const std::string to = std::string("w").append(std::to_string(1 + schedule.worker_of(s)));
    stages.push_back(s + 1 < schedule.stages ? pp::make_stage<Part>(agent, to, layers)
                                             : pp::make_loss_stage<Part, &mean_square>(agent, to, layers));
  }
  pp::Pipeline pipeline(agent, stages, schedule);
  const Tensor x = ones({kRows * schedule.micro_batches, kWidth}), y = zeros({kRows * schedule.micro_batches, kWidth});
  std::vector<double> idle, ideal, duration, receiving, sending;
  for (int i = 0; i <= batches; ++i) {
    const dist::autograd::Context context;
    pipeline.train(context, x, y);
    if (i == 0) continue;
    const pp::Report& report = pipeline.report();
    double r = 0, s = 0;
    for (const pp::StageTime& one : report.stages) r += one.receiving, s += one.sending;
    const double all = report.duration * report.workers;
    idle.push_back(report.idle_share());
    ideal.push_back(report.ideal_idle_share);
    duration.push_back(report.duration);
    receiving.push_back(r / all);
    sending.push_back(s / all);
  }
  std::printf("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", schedule.name.c_str(), schedule.micro_batches,
              1e3 * median(duration), 100 * median(ideal), 100 * median(idle), 100 * median(receiving),
              100 * median(sending));
  std::fflush(stdout);
}

void run(int rank, int batches) {
  set_num_threads(1);
  rpc::init_rpc(std::string("w").append(std::to_string(rank)));
  if (rank == 0) {
    std::printf(
        "| schedule | micro-batches | ms | schedule alone: idle %% | idle %% | waiting to receive %% | to send %% |\n"
        "|---|---|---|---|---|---|---|\n");
    for (const int micro_batches : {2, 4, 8}) {
      measure(pp::gpipe(2, micro_batches), batches);
      measure(pp::one_forward_one_backward(2, micro_batches), batches);
      measure(pp::interleaved(2, micro_batches, 2), batches);
    }
  }
  rpc::shutdown();
}

}  // namespace pipeline_bench

int main(int argc, char** argv) {
  rpc::worker_main(argc, argv);
  const int batches = argc > 1 ? std::atoi(argv[1]) : 15;
  if (batches < 1) {
    std::fprintf(stderr, "usage: %s [BATCHES >= 1]\n", argv[0]);
    return 2;
  }
  try {
    rpc::spawn<&pipeline_bench::run>(3, batches);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
