// Trains an image classifier on MNIST, CIFAR-10, CIFAR-100, or digits that the program draws.
#include <tendril/autograd/grad_mode.h>
#include <tendril/autograd/ops/loss.h>
#include <tendril/data/images.h>
#include <tendril/data/loader.h>
#include <tendril/data/transforms.h>
#include <tendril/nn/checkpoint.h>
#include <tendril/nn/optim/adam.h>
#include <tendril/nn/optim/lr_scheduler.h>
#include <tendril/nn/utils/summary_writer.h>
#include <tendril/tensor/error.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>

#include "../support/device.h"
#include "../support/main.h"
#include "../support/progress.h"
#include "digits.h"
#include "model.h"
#include "options.h"
#include "report.h"

namespace image_classifier {

namespace data = tendril::data;
namespace nn = tendril::nn;
namespace optim = tendril::optim;
using tendril::Tensor;

/// Returns the most likely label of each image.
std::vector<std::int64_t> predict(nn::Sequential& model, const data::LabelledImages& images,
                                  const data::Transform& prepare, const Options& options) {
  const tendril::NoGrad no_grad;
  model.eval();
  std::vector<std::int64_t> predicted;
  data::DataLoader loader(data::map(images, data::on_image(prepare)),
                          {.batch_size = 256, .num_workers = options.workers});
  for (auto& [x, labels] : loader) {
    const auto best = model.forward(x.to(tendril::default_device())).argmax(1).to_vector<std::int64_t>();
    predicted.insert(predicted.end(), best.begin(), best.end());
  }
  return predicted;
}

void train(const Options& options) {
  examples::catch_stop_signals();
  const tendril::Device device = examples::device_of(options.device);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  examples::set_device_and_seed(options);

  data::LabelledImages images = load_images(options, data::Split::train),
                       test = load_images(options, data::Split::test);
  const tendril::Dims size = images.images[0].sizes(), test_size = test.images[0].sizes();
  TENDRIL_CHECK(size == test_size, "--data: images to learn from are ", size, " and those to test ", test_size,
                ", expected one size");
  const bool colours = size[0] == 3;
  const Tensor test_images = test.images;  // unexpanded, for the picture of mistakes
  if (options.model == "resnet18") {       // needs three channels
    images.images = images.images.expand({-1, 3, -1, -1});
    test.images = test.images.expand({-1, 3, -1, -1});
  }
  const tendril::Dims sizes = images.images[0].sizes();
  const data::Transform prepare = data::compose({data::ToFloat{}, data::Normalize{{0.5}, {0.25}}});
  const data::Transform augment =
      data::compose({data::RandomHorizontalFlip{colours ? 0.5 : 0.0},
                     data::RandomCrop{sizes[1], sizes[2], {.padding = colours ? 4 : 1}}, prepare});
  data::DataLoader loader(
      data::map(images, data::on_image(augment)),
      {.batch_size = options.batch_size, .shuffle = true, .seed = seed, .num_workers = options.workers});

  nn::Sequential model = make_model(options.model, sizes, static_cast<std::int64_t>(images.classes.size()));
  optim::AdamW optimizer(model.parameters(), options.lr);
  optim::lr_scheduler::CosineAnnealingLR schedule(optimizer, {.T_max = options.epochs});

  double loss_sum = 0;
  const nn::CheckpointParts parts = {
      {"model", model}, {"optimizer", optimizer}, {"schedule", schedule}, {"loader", loader}, {"loss_sum", loss_sum}};
  if (options.resume && std::filesystem::exists(options.checkpoint)) nn::load_checkpoint(options.checkpoint, parts);
  std::optional<nn::utils::SummaryWriter> log;
  if (!options.logdir.empty()) log.emplace(options.logdir);
  print_start(images, test, model.num_parameters(), loader.epoch(), loader.batch());

  const auto last = static_cast<std::uint64_t>(options.epochs);
  const auto done = static_cast<std::int64_t>(loader.epoch()) * loader.size() + loader.batch();
  examples::Progress progress("steps", options.epochs * loader.size(), done);
  while (loader.epoch() < last) {
    model.train();
    for (auto& [x, y] : loader) {
      optimizer.zero_grad();
      const Tensor loss = tendril::cross_entropy(model.forward(x.to(device)), y.to(device));
      loss.backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      progress.advance();
      if (!examples::stop_wanted()) continue;
      nn::save_checkpoint(options.checkpoint, parts);
      progress.clear();
      std::printf("Stopped. --resume auto goes on from %s\n", options.checkpoint.c_str());
      return;
    }
    schedule.step();
    const double mean_loss = loss_sum / static_cast<double>(loader.size());
    loss_sum = 0;
    nn::save_checkpoint(options.checkpoint, parts);
    progress.clear();
    const double right = accuracy(test, predict(model, test, prepare, options));
    print_epoch(loader.epoch(), mean_loss, right);
    if (log) {
      log->add_scalar("loss/train", mean_loss, static_cast<std::int64_t>(loader.epoch()));
      log->add_scalar("accuracy/test", right, static_cast<std::int64_t>(loader.epoch()));
      log->flush();
    }
  }
  const auto predicted = predict(model, test, prepare, options);
  print_confusion(test, predicted);
  test.images = test_images;
  if (data::has_png()) save_mistakes(test, predicted, options.mistakes);
  std::cout << "  data loading        " << loader.stats() << "\n";
}

}  // namespace image_classifier

int main(int argc, char** argv) {
  return examples::run_main(argc, argv, image_classifier::parse_options, image_classifier::train);
}
