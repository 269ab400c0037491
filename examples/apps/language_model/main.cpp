// A language model whose embedding table and decoder live on a parameter server ("ps", rank 0) and whose LSTM lives on
// the trainer (rank 1). Follows PyTorch's tutorial "Getting started with distributed RPC framework". Read model.h
// first. variants/ has other models for the same loop (several trainers, a Transformer) and the loop for one process;
// the other files handle flags, reports and checkpoints.
#include <tendril/tendril.h>

#include "model.h"
#include "support.h"
#include "variants/local_model.h"
#include "variants/other_model.h"
#include "variants/shared_model.h"

namespace language_model {

/// The trainer's loop. `Model` is RNNModel or one of the models in variants/.
template <class Model>
void run_trainer(int rank, Options options) {
  const Corpus corpus = make_corpus(options);
  Model model("ps", options);
  dist::DistributedOptimizer<optim::SGD> opt(model.parameter_rrefs(), {.lr = options.lr},
                                             {.hogwild = options.trainers() > 1});
  dist::Rates rates(opt);
  optim::lr_scheduler::ReduceLROnPlateau schedule(rates, {.factor = 0.25, .patience = 0, .threshold = 0});
  Run run(rank, options, corpus, model, opt, schedule);  // supplies batches; reports and saves checkpoints
  while (run.next_epoch()) {
    if (run.epoch_begins()) run.hidden = run.zero_state();
    for (const auto& [data, target] : run.batches()) {
      dist::autograd::Context ctx;  // every call in this scope carries its id
      const auto [output, state] = model.forward(data, run.hidden);
      const Tensor loss = cross_entropy(output, target);
      run.draw(ctx, loss);
      dist::autograd::backward(ctx, {loss});
      if (options.clip > 0) opt.clip_grad_norm_(ctx, options.clip);
      opt.step(ctx);
      run.hidden = detached(state);
      if (!run.iteration(loss.item<double>())) break;
    }
    run.end_epoch([&](double held_out_loss) { schedule.step(held_out_loss); });  // called only with one trainer
  }
  run.finish();
}

/// Runs in each process of the group. The parameter server serves inside shutdown() until the trainers have finished.
void run_worker(int rank, const Options& options) {
  if (options.world_size == 1) return run_alone(options);
  set_default_device(examples::device_of(options.device));
  rpc::init_rpc(options.name_of(rank));
  const auto train = options.trainers() > 1  ? run_trainer<SharedModel>
                     : options.other_model() ? run_trainer<OtherModel>
                                             : run_trainer<RNNModel>;
  if (rank > 0) train(rank, options);
  rpc::shutdown();
}

}  // namespace language_model

int main(int argc, char** argv) {
  return examples::run_main(argc, argv, language_model::parse_options, [&](const auto& options) {
    tendril::rpc::launch<&language_model::run_worker>(argc, argv, options.launch, options);
  });
}
