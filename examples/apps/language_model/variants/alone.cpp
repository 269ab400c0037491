#include <tendril/nn/optim/sgd.h>
#include <tendril/nn/utils/clip_grad.h>

#include "../../support/device.h"
#include "../run.h"
#include "local_model.h"

namespace language_model {

namespace optim = tendril::optim;

void run_alone(Options options) {
  tendril::set_default_device(examples::device_of(options.device));
  const Corpus corpus = make_corpus(options);
  LocalModel model(options);
  optim::SGD opt(model.parameters(), {.lr = options.lr});
  optim::lr_scheduler::ReduceLROnPlateau schedule(opt, {.factor = 0.25, .patience = 0, .threshold = 0});
  Run run(0, options, corpus, model, opt, schedule);
  while (run.next_epoch()) {
    if (run.epoch_begins()) run.hidden = run.zero_state();
    for (const auto& [data, target] : run.batches()) {
      opt.zero_grad();
      const auto [output, state] = model.forward(data, run.hidden);
      const Tensor loss = tendril::cross_entropy(output, target);
      loss.backward();
      if (options.clip > 0) nn::utils::clip_grad_norm_(model.parameters(), options.clip);
      opt.step();
      run.hidden = detached(state);
      if (!run.iteration(loss.item<double>())) break;
    }
    run.end_epoch([&](double held_out_loss) { schedule.step(held_out_loss); });
  }
  run.finish();
}

}  // namespace language_model
