// ResNet-50 as a pipeline over RPC: each of two workers holds half of the network, and a master (rank 0) feeds them
// micro-batches, so that both halves work at the same time. Based on PyTorch's tutorial "Distributed pipeline
// parallelism using RPC". ../apps/resnet50_pipeline has schedules, any number of workers, real images and GPUs.
#include <tendril/tendril.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

using namespace tendril;

struct Options {
  std::int64_t batch_size = 120;
  std::int64_t image_size = 128;
  std::int64_t width = 64;  // channels of the first stage; 64 is ResNet-50
  std::vector<std::int64_t> splits = {1, 2, 4, 8};

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& batch_size& image_size& width& splits;
  }
};

constexpr std::int64_t kBatches = 3;
constexpr std::int64_t kClasses = 1000;

// Common to both halves. Micro-batches arrive on different threads, and batch normalisation can process only one at a
// time.
class ResNetBase : public nn::Module {
 public:
  Tensor forward(const rpc::RRef<Tensor>& x_rref) {
    const Tensor x = x_rref.to_here();
    const auto lock = rpc::blocking([this] { return std::unique_lock(mutex_); });
    return seq_(x);
  }

  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const { return dist::parameter_rrefs(*this); }

 protected:
  explicit ResNetBase(nn::Sequential seq) : seq_(std::move(seq)) { nn::init_resnet_(seq_); }

  static nn::Sequential make_layer(std::int64_t in, std::int64_t width, int blocks, int stride) {
    nn::Sequential layer;
    nn::fill_resnet_stage<nn::Bottleneck>(layer, in, width, blocks, stride);
    return layer;
  }

 private:
  std::mutex mutex_;
  nn::Sequential seq_;
  TENDRIL_MEMBERS(seq_)
};

struct ResNetShard1 : ResNetBase {
  explicit ResNetShard1(std::int64_t width)
      : ResNetBase(nn::Sequential(nn::Conv2d(3, width, 7, {.stride = 2, .padding = 3, .bias = false}),
                                  nn::BatchNorm2d(width), nn::ReLU(), nn::MaxPool2d(3, {.stride = 2, .padding = 1}),
                                  make_layer(width, width, 3, 1), make_layer(4 * width, 2 * width, 4, 2))) {}
};

struct ResNetShard2 : ResNetBase {
  explicit ResNetShard2(std::int64_t width)
      : ResNetBase(nn::Sequential(make_layer(8 * width, 4 * width, 6, 2), make_layer(16 * width, 8 * width, 3, 2),
                                  nn::AdaptiveAvgPool2d(1), nn::Flatten(), nn::Linear(32 * width, kClasses))) {}
};

class DistResNet50 {
 public:
  DistResNet50(std::int64_t num_splits, std::int64_t width)
      : num_splits_(num_splits),
        shard1_(rpc::remote<ResNetShard1>("worker1", width)),
        shard2_(rpc::remote<ResNetShard2>("worker2", width)) {}

  // The master waits only at the end: while worker2 computes on a micro-batch, worker1 computes on the next one.
  Tensor forward(const Tensor& xs) const {
    std::vector<rpc::Future<Tensor>> outputs;
    for (const Tensor& x : xs.chunk(num_splits_)) {
      const rpc::RRef<Tensor> x_rref(x);
      const rpc::RRef<Tensor> y_rref = shard1_.remote<&ResNetShard1::forward>(x_rref);
      outputs.push_back(shard2_.rpc_async<&ResNetShard2::forward>(y_rref));
    }
    return cat(rpc::wait_all(std::move(outputs)));
  }

  std::vector<rpc::RRef<Tensor>> parameter_rrefs() const {
    std::vector<rpc::RRef<Tensor>> all = shard1_.rpc_sync<&ResNetShard1::parameter_rrefs>();
    for (const auto& param : shard2_.rpc_sync<&ResNetShard2::parameter_rrefs>()) all.push_back(param);
    return all;
  }

 private:
  std::int64_t num_splits_;
  rpc::RRef<ResNetShard1> shard1_;
  rpc::RRef<ResNetShard2> shard2_;
};

void run_master(const Options& options, std::int64_t num_splits) {
  const DistResNet50 model(num_splits, options.width);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = 0.05});
  const Tensor classes = randint(0, kClasses, {options.batch_size});
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    std::printf("Processing batch %lld\n", static_cast<long long>(batch));
    const Tensor inputs = randn({options.batch_size, 3, options.image_size, options.image_size});
    const Tensor labels = one_hot(classes, kClasses).to(kFloat32);
    const dist::autograd::Context context;
    const Tensor outputs = model.forward(inputs);
    dist::autograd::backward(context, {mse_loss(outputs, labels)});
    opt.step(context);
  }
}

void run_worker(int rank, const Options& options) {
  const std::string name = rank == 0 ? "master" : "worker" + std::to_string(rank);
  rpc::init_rpc(name, {.rpc_timeout = std::chrono::minutes(10)});  // a call waits for all earlier micro-batches
  if (rank == 0) {
    for (const std::int64_t num_splits : options.splits) {
      const auto start = std::chrono::steady_clock::now();
      run_master(options, num_splits);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::printf("number of splits = %lld, execution time = %.2f s\n", static_cast<long long>(num_splits),
                  seconds.count());
      std::fflush(stdout);
    }
  }
  rpc::shutdown();
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains ResNet-50 in two halves, each on its own worker, on random images");
  app.option_defaults()->always_capture_default();
  app.add_option("--splits", options.splits, "micro-batches per batch, one run per value")->check(CLI::PositiveNumber);
  app.add_option("--batch-size", options.batch_size, "images per batch")->check(CLI::PositiveNumber);
  app.add_option("--image-size", options.image_size, "height and width of the images")->check(CLI::Range(32, 1024));
  app.add_option("--width", options.width, "channels of the first stage; 64 is ResNet-50")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  rpc::launch<&run_worker>(argc, argv, {.world_size = 3}, options);
}
