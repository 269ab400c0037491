#include "tests/parity/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "tendril/tensor/creation.h"
#include "tests/parity/ops.h"

namespace tendril::parity {
namespace {

bool is_half(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }

/// An element may be off by `relative` epsilons of itself and `of_largest` epsilons of the largest element beside it.
struct Tolerance {
  double relative, of_largest;
};

/// float32 and float64 arithmetic here and there differs by the last bits of functions (exp and the like: up to 4 ulp
/// each, a gradient's formula has a few of them) and by the order of sums (in double here, blocked in their own type
/// there: a few ulp of the largest term). The half types are computed in float on both sides and rounded where a result
/// is stored: one unit where a float falls on either side of a rounding boundary, a few where gradients are composed
/// of steps that store. Beyond that the generator says by how much PyTorch misses the result in higher precision
/// (`slack`), and we may miss it in the other direction: that covers cancellation, for us as for them.
Tolerance tolerance(DType dtype, Kind kind) {
  const bool half = is_half(dtype);
  switch (kind) {
    case Kind::exact:
      return {0, 0};
    case Kind::rounded:
      return half ? Tolerance{2, 0} : Tolerance{32, 0};
    case Kind::summed:
      return half ? Tolerance{3, 1} : Tolerance{32, 8};
    case Kind::composed:
      return half ? Tolerance{8, 4} : Tolerance{64, 16};
  }
  return {0, 0};
}
constexpr double kSlack = 4;

double epsilon(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return std::numeric_limits<double>::epsilon();
    case kFloat16:
      return 0x1p-10;
    case kBFloat16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}
/// The distance between the smallest numbers of a half type.
double smallest(DType dtype) { return dtype == kFloat16 ? 0x1p-24 : 0x1p-133; }

/// The absolute error allowed where relative ones end: float32 and float64 results below the normal numbers may be 0.
double lost(DType dtype, double relative) {
  if (relative == 0) return 0;
  if (dtype == kFloat64) return std::numeric_limits<double>::min();
  if (dtype == kFloat32) return static_cast<double>(std::numeric_limits<float>::min());
  return relative * smallest(dtype);
}

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  out.precision(12);
  (out << ... << parts);
  return out.str();
}

double largest_of(DType dtype) {
  switch (dtype) {
    case kFloat64:
      return std::numeric_limits<double>::max();
    case kFloat16:
      return 65504;
    default:
      return std::numeric_limits<float>::max();
  }
}

std::string compare_floats(const std::vector<double>& got, const Expectation& wanted, Kind kind) {
  const Tolerance allowed = tolerance(wanted.dtype, kind);
  std::vector<double> expected;
  for (const std::string& value : wanted.values) expected.push_back(real_from(value));
  // A decimal stands for the element that it is nearest to.
  expected = from_vector(expected, wanted.sizes, {.dtype = wanted.dtype, .device = kCPU}).to_vector<double>();
  const double unsure = wanted.slack.empty() ? 0 : *std::max_element(wanted.slack.begin(), wanted.slack.end());
  // Sums of float64 may cancel: their terms are numbers of about 1, and no higher precision gives the slack.
  const bool cancels = kind == Kind::summed && wanted.dtype == kFloat64;
  double largest = cancels || (kind == Kind::composed && !is_half(wanted.dtype)) ? 1 : 0;
  for (const double e : expected) largest = std::isfinite(e) ? std::max(largest, std::abs(e)) : largest;
  // The slack of float64 derivatives does not tell how far their terms cancel, either.
  const double unknown = kind == Kind::composed && wanted.dtype == kFloat64 ? 1024 : 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = expected[i], g = got[i];
    if (e == g || (std::isnan(e) && std::isnan(g))) continue;
    const double most =
        unknown * epsilon(wanted.dtype) * (allowed.relative * std::abs(e) + allowed.of_largest * largest) +
        lost(wanted.dtype, allowed.relative) + kSlack * (kind < Kind::summed ? wanted.slack[i] : unsure);
    // Where a tolerance reaches beyond the largest number, infinity is as near.
    const double bound = largest_of(wanted.dtype), near = std::isnan(g) ? g : std::clamp(g, -bound, bound);
    if (std::isfinite(e) && std::abs(near - e) <= most) continue;
    return text("element ", i, " is ", g, ", expected ", e, std::isfinite(e) ? text(" within ", most) : "");
  }
  return "";
}

std::string compare(const Tensor& got, const Expectation& wanted, Kind kind) {
  if (!got.defined()) return "is undefined";
  if (got.dtype() != wanted.dtype) return text("has dtype ", got.dtype(), ", expected ", wanted.dtype);
  if (!(got.sizes() == wanted.sizes)) return text("has shape ", got.sizes(), ", expected ", wanted.sizes);
  if (wanted.requires_grad != RequiresGrad::any && got.requires_grad() != (wanted.requires_grad == RequiresGrad::yes)) {
    return got.requires_grad() ? "requires a gradient" : "requires no gradient";
  }
  TENDRIL_CHECK(static_cast<int64_t>(wanted.values.size()) == got.numel(), "the case expects ", wanted.values.size(),
                " values in shape ", wanted.sizes);
  if (is_floating(got.dtype())) return compare_floats(got.to_vector<double>(), wanted, kind);
  const std::vector<int64_t> elements = got.to_vector<int64_t>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const int64_t expected = std::stoll(wanted.values[i]);
    if (elements[i] != expected) return text("element ", i, " is ", elements[i], ", expected ", expected);
  }
  return "";
}

struct Run {
  Environment tensors;
  std::map<int, Kind> kinds;      ///< of each tensor
  std::map<int, std::string> by;  ///< which operation made it
  std::string error;              ///< what stopped it, if anything did
};

/// Gradients are a few steps; between them the half types round, and terms of the size of what comes in may cancel. For
/// float64 no higher precision says how much.
Kind derivative_kind(Kind worst, const Tensor& gradient) {
  const DType dtype = gradient.dtype();
  return is_half(dtype) || dtype == kFloat64 || worst == Kind::summed ? Kind::composed : std::max(worst, Kind::rounded);
}

Run run(const Case& of) {
  Run result;
  Kind worst = of.nodes.size() > 20 ? Kind::composed : Kind::exact;
  int derivatives = 0;
  for (const auto& node : of.nodes) {
    if (const Input* input = std::get_if<Input>(&node)) {
      result.tensors[input->number] = input->make();
      result.kinds[input->number] = Kind::summed;  // changed in place, if it is looked at
      continue;
    }
    const Step& step = std::get<Step>(node);
    const auto op = ops().find(step.op);
    TENDRIL_CHECK(op != ops().end(), of.place, ": no operation is called '", step.op, "'");
    worst = std::max(worst, op->second.kind);
    const bool derivative = step.op == "grad" || step.op == "backward";
    try {
      const Tensors outputs = op->second.run(Args(step.args, result.tensors)).tensors;
      if (outputs.size() != step.results.size()) {
        result.error = text(step.op, " gave ", outputs.size(), " results, expected ", step.results.size());
        return result;
      }
      if (derivative && ++derivatives == 2) worst = Kind::composed;  // of terms that may cancel
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        result.tensors[step.results[i]] = outputs[i];
        // What a step gives is as exact as the steps before it.
        result.kinds[step.results[i]] = derivative ? derivative_kind(worst, outputs[i]) : worst;
        result.by[step.results[i]] = step.op;
      }
    } catch (const Error& error) {
      result.error = text(step.op, " raised: ", error.what());
      return result;
    }
  }
  return result;
}

std::string compare_all(const Run& run, const std::vector<Expectation>& expected) {
  for (const Expectation& wanted : expected) {
    const auto by = run.by.find(wanted.number);
    const std::string wrong = compare(run.tensors.at(wanted.number), wanted, run.kinds.at(wanted.number));
    if (!wrong.empty()) return text("%", wanted.number, by == run.by.end() ? "" : " = " + by->second, " ", wrong);
  }
  return "";
}

}  // namespace

std::string disagreement(const Case& of) {
  const Run result = run(of);
  if (of.raises && of.differs.empty()) return result.error.empty() ? "PyTorch raises, this does not" : "";
  if (of.differs.empty()) return result.error.empty() ? compare_all(result, of.expected) : result.error;
  if (of.we_refuse) return result.error.empty() ? "is said to be refused, and is not" : "";
  if (!result.error.empty()) return result.error;
  if (!of.raises && compare_all(result, of.expected).empty()) return "is said to differ from PyTorch, and does not";
  return compare_all(result, of.ours);
}

}  // namespace tendril::parity
