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
#include "tendril/tensor/threads.h"

using namespace tendril;

namespace {

constexpr int64_t kSide = 40, kCrop = 32, kBatch = 32;

std::int64_t option(int argc, char** argv, const std::string& name, std::int64_t otherwise) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (argv[i] == name) return std::atoll(argv[i + 1]);
  }
  return otherwise;
}

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
      for (int64_t i = 0; i < image.numel(); ++i) image.data<uint8_t>()[i] = static_cast<uint8_t>(random.below(100));
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
  if (argc < 2)
    return std::fprintf(stderr, "usage: %s FOLDER [--threads N] [--epochs E] [--images COUNT]\n", argv[0]), 2;
  set_num_threads(static_cast<int>(option(argc, argv, "--threads", 1)));
  const Files files{argv[1], std::max<int64_t>(option(argc, argv, "--images", 1024), kBatch)};
  files.write();
  for (const int workers : {0, 1, 2}) measure(files, workers, option(argc, argv, "--epochs", 10));
}
