#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tendril/nn/optim/optimizer.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

namespace tendril::optim {

/// How far a step goes along its direction.
enum class LineSearch : uint8_t {
  none,          ///< a step of `lr` along the direction
  strong_wolfe,  ///< until the strong Wolfe conditions hold
};

struct LBFGSOptions {
  double lr = 1;
  int64_t max_iter = 20;                         ///< directions that one step may take
  int64_t max_eval = 0;                          ///< calls of the closure within one step, about; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;                  ///< a step ends where no element of the gradient is larger
  double tolerance_change = 1e-9;                ///< ... or parameters or loss change by no more
  int64_t history_size = 100;                    ///< pairs of vectors that are kept, of all parameters' size each
  LineSearch line_search_fn = LineSearch::none;  ///< how far along the direction
  bool maximize = false;                         ///< steps up the gradient
  bool master_weights = false;                   ///< float32 copies of float16 and bfloat16 parameters (Optimizer)

  void validate(const char* op) const;  ///< throws Error
};

/// L-BFGS (Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", 1989), as PyTorch's: a
/// quasi-Newton method for few parameters and losses without noise. A step calls a closure several times, which clears
/// the gradients, computes the loss, and goes backward through it:
///
///     optim::LBFGS lbfgs(model.parameters(), {.line_search_fn = optim::LineSearch::strong_wolfe});
///     const Tensor loss = lbfgs.step([&] {
///       lbfgs.zero_grad();
///       Tensor l = mse_loss(model(x), y);
///       l.backward();
///       return l;
///     });
///
/// Parameters are one group, of one dtype on one device. It keeps up to 2 history_size + 3 vectors of the size of all
/// parameters together, float32 for half types. Thread-safety: one thread at a time.
class LBFGS final : public Optimizer {
 public:
  using Options = LBFGSOptions;  ///< of all parameters

  /// Throws Error for bad options, no parameters, or parameters of several dtypes or devices.
  explicit LBFGS(const std::vector<Tensor>& params, const LBFGSOptions& options = {});
  explicit LBFGS(const std::vector<Tensor>& params, Number auto lr) : LBFGS(params, LBFGSOptions{.lr = double(lr)}) {}

  /// Returns the loss at the start. A parameter without gradient counts as one with zeros. The closure runs with
  /// recording on and returns a loss of one element (ShapeError). If it throws, parameters and state are unchanged.
  /// Throws Error, before it calls the closure, for parameters that were cast or moved since this was made.
  /// No step ends at a point that the closure found to be infinite or NaN: a line search rejects it, and without one
  /// the step ends at the last finite point and the history is forgotten. From a start that is not finite no step is
  /// made.
  Tensor step(const std::function<Tensor()>& closure);

  /// Of its one group of parameters.
  const LBFGSOptions& options() const noexcept { return options_; }
  /// From the next step on. Throws Error for those that make no sense.
  void set_options(const LBFGSOptions& options);
  int64_t func_evals() const noexcept { return state_.func_evals; }  ///< calls of the closure so far
  int64_t n_iter() const noexcept { return state_.n_iter; }          ///< directions taken so far

  StateDict state_dict() const override;
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {}) override;
  double lr(std::size_t group = 0) const override;
  void set_lr(double lr) override;
  void set_lr(std::size_t group, double lr) override;
  std::optional<double> momentum(std::size_t group = 0) const override;
  void set_momentum(std::size_t group, double momentum) override;

 protected:
  void update(std::span<const Ready> ready) override;  ///< throws Error: a step needs a closure

 private:
  /// PyTorch's names. Vectors are [elements of all parameters].
  struct State {
    int64_t func_evals = 0, n_iter = 0;
    Tensor d;                                ///< the last direction; undefined before the first step
    double t = 0, h_diag = 1;                ///< its length, and the scale of the first approximation
    std::vector<Tensor> old_dirs, old_stps;  ///< differences of gradients, and steps
    std::vector<double> ro;                  ///< 1 over their products
    Tensor prev_flat_grad;
    double prev_loss = 0;
  };
  struct Point {
    double t, loss;
    Tensor grad;
    double slope;
  };

  int64_t max_eval() const noexcept { return options_.max_eval > 0 ? options_.max_eval : options_.max_iter * 5 / 4; }
  int64_t numel() const;
  Tensor call(const std::function<Tensor()>& closure) const;
  double signed_loss(const Tensor& loss) const;
  Tensor flat_grad() const;
  void move_by(double t, const Tensor& d) const;
  bool has_master_weights(std::size_t /*group*/) const override { return options_.master_weights; }
  /// The tensor that steps change: a parameter, or its master weight.
  const Tensor& stepped(std::size_t index) const;
  std::vector<Tensor> copies() const;  ///< of all that steps change
  void restore(const std::vector<Tensor>& copies) const;
  void run(const std::function<Tensor()>& closure, const Tensor& first_loss, State& state) const;
  Tensor direction(const Tensor& grad, State& state) const;
  Point line_search(const std::function<Tensor()>& closure, const Point& start, const Tensor& d, double t, int64_t most,
                    int64_t& evaluations) const;
  template <class Self, class Visit>
  static void for_each_option(Self& options, const Visit& visit);

  LBFGSOptions options_;
  State state_;
};

}  // namespace tendril::optim

TENDRIL_API_END
