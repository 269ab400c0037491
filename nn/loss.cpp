#include "tendril/nn/loss.h"

#include <sstream>

namespace tendril::nn {
namespace {

const char* name_of(LossReduction reduction) {
  switch (reduction) {
    case LossReduction::none:
      return "none";
    case LossReduction::mean:
      return "mean";
    case LossReduction::sum:
      break;
  }
  return "sum";
}

template <class Options>
void describe(std::ostream& out, const Options& options) {
  out << "reduction=" << name_of(options.reduction);
  if (options.ignore_index != Options{}.ignore_index) out << ", ignore_index=" << options.ignore_index;
}

}  // namespace

CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyOptions& options) : options_(options) {
  TENDRIL_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, "CrossEntropyLoss: label_smoothing: got ",
                options.label_smoothing, ", expected a number in [0, 1]");
  if (options_.weight.defined()) register_buffer("weight", options_.weight);
}

std::string CrossEntropyLoss::extra_repr() const {
  std::ostringstream out;
  describe(out, options_);
  if (options_.label_smoothing > 0) out << ", label_smoothing=" << options_.label_smoothing;
  return out.str();
}

NLLLoss::NLLLoss(const NllLossOptions& options) : options_(options) {
  if (options_.weight.defined()) register_buffer("weight", options_.weight);
}

std::string NLLLoss::extra_repr() const {
  std::ostringstream out;
  describe(out, options_);
  return out.str();
}

std::string describe_reduction(LossReduction reduction) { return std::string("reduction=") + name_of(reduction); }

std::string MSELoss::extra_repr() const { return describe_reduction(reduction_); }
std::string L1Loss::extra_repr() const { return describe_reduction(reduction_); }

BCELoss::BCELoss(const BinaryCrossEntropyOptions& options) : options_(options) {
  if (options_.weight.defined()) register_buffer("weight", options_.weight);
}
std::string BCELoss::extra_repr() const { return describe_reduction(options_.reduction); }

BCEWithLogitsLoss::BCEWithLogitsLoss(const BinaryCrossEntropyWithLogitsOptions& options) : options_(options) {
  if (options_.weight.defined()) register_buffer("weight", options_.weight);
  if (options_.pos_weight.defined()) register_buffer("pos_weight", options_.pos_weight);
}
std::string BCEWithLogitsLoss::extra_repr() const { return describe_reduction(options_.reduction); }

std::string CTCLoss::extra_repr() const {
  std::ostringstream out;
  out << "blank=" << options_.blank << ", " << describe_reduction(options_.reduction)
      << ", zero_infinity=" << (options_.zero_infinity ? "true" : "false");
  return out.str();
}

}  // namespace tendril::nn
