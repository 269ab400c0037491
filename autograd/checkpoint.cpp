#include "tendril/autograd/checkpoint.h"

#include <any>
#include <memory>
#include <mutex>
#include <vector>

#include "tendril/autograd/autocast.h"
#include "tendril/autograd/detail/running_again.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/node.h"
#include "tendril/tensor/detail/replay.h"
#include "tendril/tensor/detail/switched_variable.h"

namespace tendril::autograd {

namespace detail {

/// Keeps the inputs as an operation would: with a check of their versions, and through the hooks of an outer
/// checkpoint. It is in no tensor's history, and never runs.
class CheckpointInputs final : public Node {
 public:
  explicit CheckpointInputs(const std::vector<Tensor>& inputs)
      : Node({nullptr, nullptr, nullptr, nullptr, 0, 0, 0}), saved_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) continue;
      // An alias: were the tensor itself kept, a later change in place that involves the result would make a cycle.
      const Tensor alias = detail::alias(inputs[i]);
      set_history(alias, Ref<Node>(grad_fn(inputs[i])), inputs[i].impl()->output_number);
      saved_[i].save(alias);
    }
  }

  const char* name() const noexcept override { return "checkpoint"; }
  void apply(std::span<Tensor>, std::span<Tensor>) override {}
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all;
    for (const SavedTensor& one : saved_) all.push_back(one.defined() ? one.unpack(*this) : Tensor());
    return all;
  }

 private:
  void destroy_now() noexcept override { delete this; }

  std::vector<SavedTensor> saved_;
};

/// Where generators are; of a step that a cuda::Graph records, where they are at that place of each replay.
class GeneratorPositions {
 public:
  explicit GeneratorPositions(const std::vector<Generator*>& generators) : generators_(generators) {
    do_now_and_in_replays([generators, states = states_] {
      states->clear();
      for (const Generator* generator : generators) states->push_back(generator->state());
    });
  }
  const std::vector<Generator*>& generators() const noexcept { return generators_; }
  /// Puts them back to it.
  void go_back() const {
    do_now_and_in_replays([generators = generators_, states = states_] {
      for (std::size_t i = 0; i < states->size(); ++i) generators[i]->set_state((*states)[i]);
    });
  }

 private:
  static void do_now_and_in_replays(const std::function<void()>& f) {
    if (tendril::detail::Recorder* const recorder = tendril::detail::recorder()) {
      recorder->renew([f](bool) { f(); });
    } else {
      f();
    }
  }

  const std::vector<Generator*> generators_;
  const std::shared_ptr<std::vector<Generator::State>> states_ = std::make_shared<std::vector<Generator::State>>();
};

}  // namespace detail

namespace {

thread_local int runs_again = 0;
const auto runs_again_switched = tendril::detail::of_each_thread([]() -> auto& { return runs_again; });

/// While it lives generators go on from where the function began, and afterwards from where they were.
class Rewound {
 public:
  explicit Rewound(const detail::GeneratorPositions& beginning) : now_(beginning.generators()) {
    beginning.go_back();
    ++runs_again;
  }
  ~Rewound() {
    --runs_again;
    now_.go_back();
  }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  const detail::GeneratorPositions now_;
};

std::vector<Generator*> generators_of(const CheckpointOptions& options) {
  std::vector<Generator*> all;
  if (options.preserve_rng_state) all.push_back(&default_generator());
  for (Generator* generator : options.generators) {
    TENDRIL_CHECK(generator, "checkpoint: a generator is null");
    all.push_back(generator);
  }
  return all;
}

}  // namespace

bool detail::is_running_again() noexcept { return runs_again > 0; }

/// One call of a checkpointed function: what its operations saved, in order.
class detail::CheckpointFrame : public std::enable_shared_from_this<CheckpointFrame> {
 public:
  CheckpointFrame(const std::vector<Tensor>& inputs, std::function<void(std::span<const Tensor>)> run_again,
                  const CheckpointOptions& options)
      : inputs_(Ref<CheckpointInputs>::first(new CheckpointInputs(inputs))),
        run_again_(std::move(run_again)),
        beginning_(generators_of(options)) {}

  std::shared_ptr<const SavedTensorFunctions> first_run() {
    SavedTensorFunctions functions;
    functions.pack = [frame = shared_from_this()](const Tensor& x) { return std::any(frame->note(x)); };
    functions.unpack = [](const std::any& kept) {
      const auto& place = std::any_cast<const std::shared_ptr<Place>&>(kept);
      return place->frame->value(*place);
    };
    functions.ran = [](const std::any& kept) {
      const auto& place = std::any_cast<const std::shared_ptr<Place>&>(kept);
      place->frame->let_go(place->number, false);
    };
    return std::make_shared<const SavedTensorFunctions>(std::move(functions));
  }
  void first_run_over() {
    const std::lock_guard lock(mutex_);
    complete_ = true;
  }

 private:
  /// In the node that saved the tensor: when that goes, nobody will ask any more.
  struct Place {
    Place(std::shared_ptr<CheckpointFrame> of, std::size_t i) : frame(std::move(of)), number(i) {}
    ~Place() { frame->let_go(number, true); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::shared_ptr<CheckpointFrame> frame;
    std::size_t number;
  };
  struct Saved {
    Dims sizes;
    DType dtype;
    Device device;
    uint32_t version;
    bool wanted = true;
    Tensor again = {};
  };

  std::shared_ptr<Place> note(const Tensor& x) {
    const std::lock_guard lock(mutex_);
    saved_.push_back({x.sizes(), x.dtype(), x.device(), x.version()});
    return std::make_shared<Place>(shared_from_this(), saved_.size() - 1);
  }

  void let_go(std::size_t number, bool for_good) noexcept {
    const std::lock_guard lock(mutex_);
    saved_[number].again = {};
    if (for_good) saved_[number].wanted = false;
  }

  Tensor value(const Place& place) {
    const std::lock_guard lock(mutex_);
    const Saved& saved = saved_[place.number];
    if (!saved.again.defined()) run_again();
    check_version(saved.again, place.number);  // the function may have changed it after it was saved
    return saved.again;
  }

  void run_again() {
    std::size_t next = 0;
    SavedTensorFunctions functions;
    functions.pack = [&](const Tensor& x) {
      take(next++, x);
      return std::any(x);  // for a backward within the function
    };
    functions.unpack = [](const std::any& kept) { return std::any_cast<const Tensor&>(kept); };
    const std::vector<Tensor> inputs = inputs_->inputs();
    const Rewound rewound(beginning_);
    const EnableGrad recording;
    const Autocast as_before(autocast_);
    const SavedTensorHooks hooks(std::make_shared<const SavedTensorFunctions>(std::move(functions)));
    run_again_(inputs);
    // In a backward within the function's first run, this run gets farther than that one has.
    TENDRIL_CHECK_AS(AutogradError, next >= saved_.size(), "checkpoint: the function saved ", next,
                     " tensors for backward when it was run again, and ", saved_.size(), " the first time");
  }

  void take(std::size_t i, const Tensor& x) {
    TENDRIL_CHECK_AS(AutogradError, i < saved_.size() || !complete_, "checkpoint: the function saved more than the ",
                     saved_.size(), " tensors of the first time when it was run again for backward");
    if (i >= saved_.size()) return;
    Saved& saved = saved_[i];
    TENDRIL_CHECK_AS(AutogradError, x.sizes() == saved.sizes && x.dtype() == saved.dtype && x.device() == saved.device,
                     "checkpoint: the function saved ", x.dtype(), " ", x.sizes(), " on ", x.device(),
                     " when it was run again for backward, in place of ", saved.dtype, " ", saved.sizes, " on ",
                     saved.device, " the first time (tensor ", i, " of ", saved_.size(), ")");
    check_version(x, i);
    if (saved.wanted) saved.again = x;
  }

  void check_version(const Tensor& x, std::size_t i) const {
    TENDRIL_CHECK_AS(AutogradError, x.version() == saved_[i].version,
                     "checkpoint: a tensor that the function saves has been modified by an inplace operation since: ",
                     x.dtype(), " ", x.sizes(), " is at version ", x.version(), "; expected version ",
                     saved_[i].version, " (tensor ", i, " of ", saved_.size(), ")");
  }

  const Ref<CheckpointInputs> inputs_;
  const std::function<void(std::span<const Tensor>)> run_again_;
  const GeneratorPositions beginning_;
  const AutocastOptions autocast_ = autocast_state();
  // An inner frame's is taken before its outer one's, for its inputs. Recursive: in the second run a graph of the first
  // may end.
  std::recursive_mutex mutex_;
  std::vector<Saved> saved_;
  bool complete_ = false;
};

detail::CheckpointScope::CheckpointScope(const std::vector<Tensor>& inputs,
                                         std::function<void(std::span<const Tensor>)> run_again,
                                         const CheckpointOptions& options)
    : frame_(std::make_shared<CheckpointFrame>(inputs, std::move(run_again), options)), hooks_(frame_->first_run()) {}

detail::CheckpointScope::~CheckpointScope() { frame_->first_run_over(); }

void detail::check_segments(std::size_t functions, int64_t segments) {
  TENDRIL_CHECK(segments >= 1 && static_cast<std::size_t>(segments) <= functions,
                "checkpoint_sequential: segments: got ", segments, " for ", functions,
                " functions, expected at least 1 and at most one for each");
}

}  // namespace tendril::autograd
