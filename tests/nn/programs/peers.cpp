// Writes files for other people's programs to read (tests/nn/peers.sh):
//   peers files FOLDER    weights of a network, images, and the logits that it gives them (exchange.py)
//   peers events FOLDER   a run's curves, histograms and pictures (events.py)
#include <cstdio>
#include <filesystem>
#include <string>

#include "tendril/autograd/grad_mode.h"
#include "tendril/data/images.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/utils/summary_writer.h"
#include "tendril/tensor/files/numpy.h"
#include "tendril/tensor/files/safetensors.h"
#include "tendril/tensor/raw.h"
#include "tests/seed.h"

using namespace tendril;
using tendril::testing::test_seed;

namespace {

void write_files(const std::filesystem::path& folder) {
  manual_seed(test_seed(1));
  nn::ResNet<nn::Bottleneck> model({2, 1, 1, 1}, {.num_classes = 5, .base = 4});
  const Tensor images = raw::empty({2, 3, 32, 32});
  Generator generator(test_seed());
  raw::normal_(images, 0, 1, generator);
  model(images);  // changes running statistics
  model.eval();
  const NoGrad no_grad;
  save_safetensors(model.state_dict(), folder / "model.safetensors");
  save_npz(model.state_dict(), folder / "model.npz");
  save_npz({{"images", images}, {"logits", model(images)}}, folder / "run.npz");
  save_npy(images, folder / "images.npy");
}

void write_events(const std::filesystem::path& folder) {
  nn::utils::SummaryWriter writer(folder);
  Generator generator(test_seed());
  const Tensor values = raw::empty({40, 25});
  raw::normal_(values, 0.5, 2, generator);
  save_npy(values, folder / "values.npy");
  for (int step = 0; step < 100; ++step) {
    writer.add_scalar("loss/train", 1.0 / (step + 1), step, 1700000000 + step);
    writer.add_scalar("loss/valid", 2.0 / (step + 1), step, 1700000000 + step);
  }
  writer.add_histogram("weights", values, 7);
  writer.add_text("sample", "to be or *not*", 8);
  if (!data::has_png()) return;
  const Tensor picture = raw::empty({3, 5, 9}, kUInt8);
  for (int64_t i = 0; i < picture.numel(); ++i) picture.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(7 * i);
  save_npy(picture, folder / "picture.npy");
  writer.add_image("picture", data::encode_png(picture), 9);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what == "files") return write_files(argv[2]), 0;
  if (what == "events") return write_events(argv[2]), 0;
  return std::fprintf(stderr, "usage: %s files|events FOLDER\n", argv[0]), 2;
}
