// Chapter 8: a pipeline. Each of two workers holds half of a network; micro-batches keep both busy at the same time.
#include <tendril/tendril.h>

#include <chrono>
#include <cstdio>

using namespace tendril;

// One half of a deep network.
class Stage : public nn::Module {
 public:
  Stage(std::int64_t in, std::int64_t out) {
    for (int i = 0; i < 3; ++i) {
      layers_.emplace<nn::Linear>(i == 0 ? in : 256, 256);
      layers_.emplace<nn::ReLU>();
    }
    layers_.emplace<nn::Linear>(256, out);
  }
  // The other worker may still be computing or sending the argument: to_here waits for it.
  Tensor forward(const rpc::RRef<Tensor>& x) { return layers_.forward(x.to_here()); }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 private:
  nn::Sequential layers_;
  TENDRIL_MEMBERS(layers_)
};

struct Pipeline {
  rpc::RRef<Stage> first = rpc::remote<Stage>("stage1", 64, 128), second = rpc::remote<Stage>("stage2", 128, 10);

  Tensor forward(const Tensor& batch, std::int64_t micro_batches) const {
    std::vector<rpc::Future<Tensor>> outputs;
    for (const Tensor& x : batch.chunk(micro_batches)) {
      const auto between = first.remote<&Stage::forward>(rpc::RRef<Tensor>(x));  // stays on stage1 until it is fetched
      outputs.push_back(second.rpc_async<&Stage::forward>(between));
    }
    return cat(rpc::wait_all(std::move(outputs)));
  }
  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    auto all = first.rpc_sync<&Stage::parameter_rrefs>();
    for (auto& rref : second.rpc_sync<&Stage::parameter_rrefs>()) all.push_back(rref);
    return all;
  }
};

void run(int rank) {
  rpc::init_rpc(rank == 0 ? "master" : "stage" + std::to_string(rank));
  if (rank == 0) {
    manual_seed(3);
    const Pipeline pipeline;
    dist::DistributedOptimizer<optim::Adam> adam(pipeline.parameter_rrefs(), {.lr = 1e-3});
    const Tensor x = randn({512, 64}), labels = x.slice(1, 0, 10).argmax(1);  // the index of the largest of ten numbers
    const auto train = [&](std::int64_t micro_batches, int steps) {
      double loss = 0;
      for (int step = 0; step < steps; ++step) {
        dist::autograd::Context context;
        const Tensor error = cross_entropy(pipeline.forward(x, micro_batches), labels);
        dist::autograd::backward(context, {error});
        adam.step(context);
        loss = error.item<double>();
      }
      return loss;
    };
    const double before = train(1, 1);
    double after = 0;
    for (const std::int64_t micro_batches : {1, 2, 4, 8}) {
      const auto start = std::chrono::steady_clock::now();
      after = train(micro_batches, 25);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::printf("%lld micro-batches: %.3f s\n", static_cast<long long>(micro_batches), seconds.count());
    }
    std::printf("loss %.3f -> %.3f, learns: %s\n", before, after, after < 0.8 * before ? "yes" : "no");
  }
  rpc::shutdown();
}

int main(int argc, char** argv) { rpc::launch<&run>(argc, argv, {.world_size = 3}); }
