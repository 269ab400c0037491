#include "report.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace language_model {

Report::Report(const Options& options) : path_(options.losses) {
  if (path_.empty()) return;
  losses_ = std::fopen(path_.c_str(), "w");
  if (losses_ == nullptr) throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

Report::~Report() {
  if (losses_ != nullptr) std::fclose(losses_);
}

void Report::iteration(double loss) {
  if (losses_ != nullptr) std::fprintf(losses_, "%.9g\n", loss);  // enough to tell any two floats apart
  ++iterations_;
  ++epoch_iterations_;
  epoch_sum_ += loss;
}

void Report::epoch() {
  last_ = epoch_sum_ / static_cast<double>(epoch_iterations_);
  if (epochs_ == 0) first_ = last_;
  std::printf("Training epoch %d\tLoss: %.4f\tPerplexity: %.2f\n", epochs_, last_, std::exp(last_));
  std::fflush(stdout);
  ++epochs_;
  epoch_sum_ = 0;
  epoch_iterations_ = 0;
}

void Report::finish(std::uint64_t rpcs) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto count = static_cast<double>(iterations_);
  std::printf("\n  iterations/s        %.0f\n", count / seconds);
  std::printf("  loss                %.4f in the first epoch, %.4f in the last\n", first_, last_);
  if (rpcs > 0) std::printf("  RPCs per iteration  %.2f\n", static_cast<double>(rpcs) / count);
  if (losses_ != nullptr) std::printf("  losses              %s\n", path_.c_str());
}

}  // namespace language_model
