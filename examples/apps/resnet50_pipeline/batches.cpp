#include "batches.h"

#include <tendril/data/transforms.h>
#include <tendril/tensor/creation.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "../graphs/graph_picture.h"
#include "../support/images.h"

namespace pipeline {
namespace {

using tendril::Tensor;
namespace data = tendril::data;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Batches::Batches(const Options& options)
    : options_(options),
      classes_(options.network.classes),
      generator_(static_cast<std::uint64_t>(options.network.seed)) {
  if (options.data.empty()) {
    indices_ = tendril::randint(0, classes_, {options.batch_size, 1}, generator_);
    return;
  }
  data::LabelledImages images = examples::load_images(options.data, data::Split::train);
  classes_ = static_cast<std::int64_t>(images.classes.size());
  images.images = images.images.expand({-1, 3, -1, -1});  // gray images become three equal channels
  const data::Transform prepare =
      data::compose({data::Resize{options.image, options.image}, data::ToFloat{}, data::Normalize{{0.5}, {0.25}}});
  loader_ = std::make_unique<Loader>(data::map(std::move(images), data::on_image(prepare)),
                                     data::DataLoaderOptions{.batch_size = options.batch_size,
                                                             .shuffle = true,
                                                             .seed = static_cast<std::uint64_t>(options.network.seed),
                                                             .drop_last = true,
                                                             .num_workers = 1});
}

void Batches::next_of_data() {
  if (at_) ++*at_;
  if (!at_ || *at_ == loader_->end()) at_ = loader_->begin();  // a new pass over all images, in another order
  const auto& [images, classes] = **at_;
  inputs = images.to(tendril::default_device());
  labels = classes.to(tendril::default_device());
}

bool Batches::next() {
  if (done_ == 0) start_ = std::chrono::steady_clock::now();
  const std::int64_t batch = options_.batch_size;
  if (done_ == options_.batches) {
    const double seconds = seconds_since(start_);
    const std::int64_t images = batch * done_;
    std::printf("trained on %lld images in %.2f s, %.1f images/s\n", static_cast<long long>(images), seconds,
                static_cast<double>(images) / seconds);
    std::fflush(stdout);  // before the launcher's line
    return false;
  }
  std::printf("Processing batch %lld\n", static_cast<long long>(done_++));
  std::fflush(stdout);
  if (loader_) {
    next_of_data();
  } else {
    inputs = tendril::randn({batch, 3, options_.image, options_.image}, generator_);
    labels = tendril::zeros({batch, classes_}).scatter_add(1, indices_, tendril::ones({batch, 1}));
  }
  return true;
}

void Batches::draw(const tendril::dist::autograd::Context& context, const Tensor& loss) {
  if (done_ == 1) examples::write_graph(options_.graph, context, loss);
}

void Batches::learnt(double loss) {
  if (loader_) std::printf("  loss %.4f\n", loss);
}

Tensor few_images(const Options& options, std::int64_t most) {
  // Batch normalisation needs two values per channel; the last feature map is 1/32 of the image's size.
  const std::int64_t side = (options.image + 31) / 32, few = side > 1 ? 2 : 8;
  return tendril::ones({std::min(few, most), 3, options.image, options.image}, {.dtype = options.network.dtype});
}

void print_run(std::size_t micro_batches, std::chrono::steady_clock::time_point start) {
  std::printf("number of splits = %zu, execution time = %.2f\n", micro_batches, seconds_since(start));
  std::fflush(stdout);
}

void print_cut(const tendril::dist::pipeline::Schedule& schedule, const std::vector<std::size_t>& cut,
               const std::vector<double>& costs) {
  for (std::size_t s = 0; s + 1 < cut.size(); ++s) {
    const auto at = [&](std::size_t layer) { return costs.begin() + static_cast<std::ptrdiff_t>(layer); };
    std::printf("stage %zu on %s: layers %zu to %zu, %.1f ms measured for a few images\n", s,
                name_of(1 + schedule.worker_of(static_cast<int>(s))).c_str(), cut[s], cut[s + 1] - 1,
                1e3 * std::accumulate(at(cut[s]), at(cut[s + 1]), 0.0));
  }
}

}  // namespace pipeline
