// Whether training waits for its data: a small CNN learns from PNG files, which are read, decoded and augmented for
// each batch by the loop itself (0 workers) or by threads of the DataLoader; as lines "workers<TAB>steps/s<TAB>%
// stalled".
//   bench_loading FOLDER [--threads N] [--epochs E] [--images COUNT]
// Stalled: the share of the loop's time in which it waits for a batch (DataLoader::stats).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>

#include "bench/flags.h"
#include "tendril/autograd/backward.h"
#include "tendril/autograd/ops/loss.h"
#include "tendril/data/images.h"
#include "tendril/data/loader.h"
#include "tendril/data/transforms.h"
#include "tendril/nn/activation.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/flatten.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/optim/sgd.h"
#include "tendril/nn/pooling.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

constexpr int64_t kSide = 40, kCrop = 32, kBatch = 32;

/// Files "0.png", "1.png", ...: a bright square on noise, whose label is where it is.
struct Files {
  std::filesystem::path folder;
  int64_t count;
  data::Transform prepare = data::compose(
      {data::RandomCrop{kCrop, kCrop}, data::RandomHorizontalFlip{}, data::ToFloat{}, data::Normalize{{0.5}, {0.25}}});

  int64_t size() const { return count; }
  std::tuple<Tensor, int64_t> get(int64_t index, Generator& random) const {
    return {prepare(data::load_png(folder / (std::to_string(index) + ".png")), random), index % 4};
  }
  void write() const {
    Generator random(1);
    for (int64_t index = 0; index < count; ++index) {
      const Tensor image = raw::empty({3, kSide, kSide}, kUInt8);
      for (int64_t i = 0; i < image.numel(); ++i)
        image.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(random.below(100));
      const int64_t row = index % 4 / 2 * 20 + 5, column = index % 2 * 20 + 5;
      raw::fill_(raw::narrow(raw::narrow(image, 1, row, 10), 2, column, 10), 200);
      data::save_png(image, folder / (std::to_string(index) + ".png"));
    }
  }
};

void measure(const Files& files, int workers, int64_t epochs) {
  manual_seed(1);
  nn::Sequential model(nn::Conv2d(3, 16, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2),
                       nn::Conv2d(16, 32, 3, {.padding = 1}), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                       nn::Linear(32 * (kCrop / 4) * (kCrop / 4), 4));
  optim::SGD sgd(model.parameters(), {.lr = 0.01, .momentum = 0.9});
  data::DataLoader loader(files, {.batch_size = kBatch, .shuffle = true, .seed = 1, .num_workers = workers});
  while (loader.epoch() < static_cast<uint64_t>(epochs)) {
    for (auto& [x, y] : loader) {
      sgd.zero_grad();
      cross_entropy(model(x), y).backward();
      sgd.step();
    }
  }
  const data::LoaderStats stats = loader.stats();
  const double elapsed = stats.elapsed.count();
  std::printf("%d\t%.0f\t%.1f\n", workers, static_cast<double>(stats.batches) / elapsed,
              100 * stats.stalled.count() / elapsed);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  int64_t images = 1024, epochs = 10;
  CLI::App app("Whether training waits for its data");
  bench::add_threads(app);
  app.add_option("folder", folder, "Where the images are written")->required()->check(CLI::ExistingDirectory);
  app.add_option("--images", images, "How many")->check(CLI::Range(kBatch, int64_t{1} << 20));
  app.add_option("--epochs", epochs, "How often all are read")->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  const Files files{folder, images};
  files.write();
  for (const int workers : {0, 1, 2}) measure(files, workers, epochs);
}
