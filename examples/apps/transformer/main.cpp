// Trains a character-level GPT on a text and prints samples while it trains.
#include <tendril/autograd/grad_mode.h>
#include <tendril/autograd/ops/join.h>
#include <tendril/autograd/ops/loss.h>
#include <tendril/autograd/ops/pointwise.h>
#include <tendril/autograd/ops/random.h>
#include <tendril/nn/checkpoint.h>
#include <tendril/nn/optim/adam.h>
#include <tendril/nn/optim/lr_scheduler.h>
#include <tendril/nn/utils/clip_grad.h>
#include <tendril/nn/utils/summary_writer.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "../support/device.h"
#include "../support/main.h"
#include "../support/progress.h"
#include "model.h"
#include "options.h"
#include "text.h"

namespace transformer {

namespace optim = tendril::optim;

/// Returns the mean loss per character over pieces of a text.
Tensor loss_of(const GPT& model, const Pieces& pieces) {
  const Tensor scores = model.forward(pieces.x.to(tendril::default_device()));
  return tendril::cross_entropy(scores.flatten(0, 1), pieces.y.flatten().to(tendril::default_device()));
}

/// Returns the loss of the held-out text, cut into consecutive pieces.
double kept_loss(GPT& model, const Text& text, const Options& options) {
  const tendril::NoGrad no_grad;
  model.eval();
  const std::int64_t most = (text.kept.numel() - 1) / options.context;
  const std::int64_t count = std::min<std::int64_t>(most, 64), length = count * options.context;
  const auto pieces = [&](std::int64_t from) {
    return text.kept.slice(0, from, from + length).reshape({count, options.context});
  };
  return loss_of(model, {pieces(0), pieces(1)}).item<double>();
}

/// Returns `prompt` continued by the model one character at a time.
std::string sample(GPT& model, const Text& text, const Options& options, const std::string& prompt) {
  const tendril::NoGrad no_grad;
  model.eval();
  tendril::Generator random(static_cast<std::uint64_t>(options.seed));
  Tensor ids = tendril::data::character_ids(prompt, text.characters);
  for (std::int64_t i = 0; i < options.sample_length; ++i) {
    const Tensor seen = ids.slice(0, std::max<std::int64_t>(0, ids.numel() - options.context), ids.numel());
    const Tensor scores =
        model.forward(seen.unsqueeze(0).to(tendril::default_device())).select(0, 0).select(0, -1).to(tendril::kCPU);
    const Tensor next = options.temperature == 0
                            ? scores.argmax(0, true)
                            : multinomial((scores / options.temperature).softmax(0), 1, true, random);
    ids = tendril::cat({ids, next});
  }
  return text.characters.text(ids);
}

void train(const Options& options) {
  examples::catch_stop_signals();
  examples::set_device_and_seed(options);

  const Text text = load(options);
  const std::string prompt =
      options.prompt.empty() ? text.characters.text(text.kept.slice(0, 0, options.context)) : options.prompt;
  tendril::data::character_ids(prompt, text.characters);  // fails now instead of at the first sample
  GPT model(text.characters.size(), options);
  optim::AdamW optimizer(model.parameters(), options.lr);
  optim::lr_scheduler::OneCycleLR schedule(optimizer, {.max_lr = options.lr, .total_steps = options.steps});
  tendril::Generator pieces(static_cast<std::uint64_t>(options.seed) + 1);

  std::int64_t step = 0;
  double loss_sum = 0;
  const nn::CheckpointParts parts = {{"model", model},
                                     {"optimizer", optimizer},
                                     {"schedule", schedule},
                                     {"pieces", pieces},
                                     {"dropout", tendril::default_generator()},
                                     {"step", step},
                                     {"loss_sum", loss_sum}};
  if (options.resume && std::filesystem::exists(options.checkpoint)) nn::load_checkpoint(options.checkpoint, parts);
  std::optional<nn::utils::SummaryWriter> log;
  if (!options.logdir.empty()) log.emplace(options.logdir);
  std::printf("%lld characters to learn from, %lld held out, %lld different; %lld parameters; step %lld\n",
              static_cast<long long>(text.train.numel()), static_cast<long long>(text.kept.numel()),
              static_cast<long long>(text.characters.size()), static_cast<long long>(model.num_parameters()),
              static_cast<long long>(step));

  examples::Progress progress("steps", options.steps, step);
  while (step < options.steps) {
    model.train();
    optimizer.zero_grad();
    const Tensor loss = loss_of(model, draw_pieces(text.train, options.batch_size, options.context, pieces));
    loss.backward();
    if (options.clip > 0) nn::utils::clip_grad_norm_(model.parameters(), options.clip);
    optimizer.step();
    schedule.step();
    loss_sum += loss.item<double>();
    ++step;
    progress.advance();
    const bool stop = examples::stop_wanted(), report = step % options.sample_every == 0 || step == options.steps;
    if (!stop && !report) continue;
    progress.clear();
    if (report) {
      const std::int64_t steps = step % options.sample_every == 0 ? options.sample_every : step % options.sample_every;
      const double mean = loss_sum / static_cast<double>(steps), kept = kept_loss(model, text, options);
      const std::string written = sample(model, text, options, prompt);
      loss_sum = 0;
      std::printf("\nStep %lld\tLoss: %.4f\tHeld out: %.4f\n%s\n", static_cast<long long>(step), mean, kept,
                  written.c_str());
      std::fflush(stdout);
      if (log) {
        log->add_scalar("loss/train", mean, step);
        log->add_scalar("loss/kept", kept, step);
        log->add_text("sample", written, step);
        log->flush();
      }
    }
    nn::save_checkpoint(options.checkpoint, parts);
    if (stop && step < options.steps) {
      std::printf("Stopped. --resume auto goes on from %s\n", options.checkpoint.c_str());
      return;
    }
  }
}

}  // namespace transformer

int main(int argc, char** argv) {
  return examples::run_main(argc, argv, transformer::parse_options, transformer::train);
}
