#include "options.h"

#include "../support/flags.h"

namespace pipeline {
namespace {

using examples::FlagError;

void check_at_most(const char* flag, const std::vector<std::int64_t>& values, std::int64_t batch) {
  for (const auto value : values) {
    if (value > batch)
      throw FlagError(flag,
                      "expected at most the batch size " + std::to_string(batch) + ", got " + std::to_string(value));
  }
}

// Batch normalisation needs two values per channel; the last feature map is 1/32 of the image's size.
void check_smallest(const Options& options) {
  const std::int64_t side = (options.image + 31) / 32;
  for (const auto& run : options.runs) {
    if (run.back() * side * side < 2)
      throw FlagError("micro-batches",
                      "a batch of " + std::to_string(options.batch_size) + " in " + std::to_string(run.size()) +
                          " leaves a micro-batch of one image, whose last feature map has one pixel: " +
                          "batch normalisation needs more than one value");
  }
}

void check_schedule(const Options& options) {
  const bool interleaved = options.schedule == "interleaved";
  if (!options.graph.empty() && options.schedule != "by-hand")
    throw FlagError("--graph", "needs --schedule by-hand: with a schedule, no graph crosses the stages");
  if (options.recompute && options.schedule == "by-hand")
    throw FlagError("--recompute", "is of the stages of a schedule, not of the form by hand");
  if (options.schedule == "by-hand" && options.workers != 2)
    throw FlagError("--workers", "the form by hand has two, got " + std::to_string(options.workers));
  const std::int64_t stages = std::int64_t{options.workers} * (interleaved ? options.stages_per_worker : 1);
  if (stages > static_cast<std::int64_t>(options.network.layers()))
    throw FlagError("--workers", "the network has " + std::to_string(options.network.layers()) +
                                     " layers, too few for " + std::to_string(stages) + " stages");
  for (const auto& run : options.runs) {
    if (interleaved && run.size() % static_cast<std::size_t>(options.workers) != 0)
      throw FlagError("--micro-batches", "interleaved: expected a multiple of the number of workers, " +
                                             std::to_string(options.workers) + ", got " + std::to_string(run.size()));
  }
}

}  // namespace

std::vector<std::int64_t> split_into(std::int64_t batch, std::int64_t count) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(count), batch / count);
  for (std::int64_t i = 0; i < batch % count; ++i) ++parts[static_cast<std::size_t>(i)];
  return parts;
}

std::vector<std::int64_t> split_by(std::int64_t batch, std::int64_t size) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(batch / size), size);
  if (batch % size != 0) parts.push_back(batch % size);
  return parts;
}

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_status) {
  constexpr examples::Range<std::int64_t> kSize{1, 1'000'000};
  Options options;
  std::vector<std::int64_t> counts{1, 2, 4, 8}, sizes;
  bool tiny = false;
  examples::Flags flags(
      "resnet50_pipeline",
      "Trains ResNet-50 cut into parts on several workers, which process micro-batches concurrently.");
  flags.add(
      "--micro-batches", counts, kSize,
      "Number of micro-batches per batch; one run for each value. If the batch does not divide evenly, the first ones "
      "have one more image");
  flags.add("--micro-batch-size", sizes, kSize,
            "Images per micro-batch, instead of --micro-batches; the last one may be smaller");
  flags.exclude("--micro-batch-size", "--micro-batches");
  flags.add_batch_size(options.batch_size, "Images per batch");
  flags.add("--batches", options.batches, kSize, "Number of batches to train on");
  flags.add("--image", options.image, {1, 4096}, "Height and width of the images");
  flags.add_data(options.data, "Folder of CIFAR (binary) or MNIST files; default: random images");
  flags.add("--classes", options.network.classes, kSize, "Number of classes");
  flags.add_seed(options.network.seed);
  flags.add("--threads", options.threads, {0, 1024}, "Compute threads per worker; 0: one per core");
  flags.add("--schedule", options.schedule, std::vector<std::string>{"1f1b", "gpipe", "interleaved", "by-hand"},
            "Order of forward and backward passes; by-hand: the tutorial's version");
  flags.add_workers(options.workers, {1, 64}, "Number of workers that have a part of the network");
  flags.add("--stages-per-worker", options.stages_per_worker, {1, 16}, "Stages per worker with --schedule interleaved");
  flags.add("--recompute", options.recompute,
            "Stages keep only their inputs and recompute the rest in backward: less memory, more time");
  flags.add_graph(options.graph, "batch (with --schedule by-hand)");
  flags.add("--report", options.report, "Print the cut of the network and the times of each stage");
  flags.add_device(options.device,
                   "Device of the parts: cpu, cuda:N, or cuda: a separate GPU for each worker if there are enough");
  flags.add_tiny(tiny, "A narrow network on small images; takes seconds");
  flags.add_launch(options.launch);
  return flags.parse(argc, argv, options, exit_status, [&] {
    if (tiny) {
      options.network.base = 8;
      options.network.blocks = {1, 1, 1, 1};
      if (!flags.given("--classes")) flags.imply("--classes", options.network.classes, 10);
      if (!flags.given("--batch-size")) flags.imply("--batch-size", options.batch_size, 16);
    }
    if ((tiny || !options.data.empty()) && !flags.given("--image")) flags.imply("--image", options.image, 32);
    if (!options.data.empty() && flags.given("--classes")) throw FlagError("--classes", "not beside --data");
    if (!sizes.empty()) counts.clear();
    flags.omit(sizes.empty() ? "--micro-batch-size" : "--micro-batches");
    check_at_most("--micro-batches", counts, options.batch_size);
    check_at_most("--micro-batch-size", sizes, options.batch_size);
    for (const auto size : sizes) {
      if (options.batch_size / size > kSize.high)
        throw FlagError("--micro-batch-size",
                        "expected at most " + std::to_string(kSize.high) + " micro-batches, got a batch of " +
                            std::to_string(options.batch_size) + " in micro-batches of " + std::to_string(size));
    }
    for (const auto count : counts) options.runs.push_back(split_into(options.batch_size, count));
    for (const auto size : sizes) options.runs.push_back(split_by(options.batch_size, size));
    check_smallest(options);
    if (!flags.given("--micro-batches") && !flags.given("--micro-batch-size") && options.schedule == "interleaved") {
      std::erase_if(options.runs,
                    [&](const auto& run) { return run.size() % static_cast<std::size_t>(options.workers); });
      if (options.runs.empty()) throw FlagError("--micro-batches", "interleaved: expected a multiple of --workers");
    }
    check_schedule(options);
    options.effective = flags.effective();
    options.launch.world_size = options.workers + 1;
  });
}

}  // namespace pipeline
