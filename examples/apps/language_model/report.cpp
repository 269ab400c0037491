#include "report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <locale>
#include <stdexcept>

namespace language_model {

Report::Report(const Options& options, bool shows, std::size_t batches)
    : shows_(shows),
      batches_(batches),
      interval_(options.log_interval),
      path_(options.losses),
      trainers_(std::max(options.trainers(), 1)) {
  if (!shows_) return;
  if (!options.logdir.empty()) log_.emplace(options.logdir);
  if (path_.empty()) return;
  losses_.open(path_);
  losses_.imbue(std::locale::classic());  // the program's locale may print a comma in numbers
  losses_.precision(9);                   // enough digits to distinguish any two floats
  check_losses();
}

void Report::check_losses() const {
  if (!losses_) throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

void Report::iteration(double loss) {
  if (losses_.is_open()) losses_ << loss << '\n';
  ++all_iterations_;
  ++iterations;
  loss_sum += loss;
  logged_sum_ += loss;
  ++logged_;
  if (shows_ && interval_ > 0 && iterations % interval_ == 0) log();
}

void Report::log() {
  const auto now = Clock::now();
  const auto count = static_cast<double>(logged_);
  const double mean = logged_sum_ / count;
  std::printf("| epoch %3lld | %5lld/%5zu batches | ms/batch %5.2f | loss %5.2f | ppl %8.2f\n",
              static_cast<long long>(epochs), static_cast<long long>(iterations), batches_,
              1e3 * std::chrono::duration<double>(now - logged_at_).count() / count, mean, std::exp(mean));
  std::fflush(stdout);
  logged_sum_ = 0;
  logged_ = 0;
  logged_at_ = now;
}

void Report::epoch(std::optional<double> valid) {
  last_ = loss_sum / static_cast<double>(iterations);
  if (epochs == 0) first_loss = last_;
  if (shows_) show(valid);
  ++epochs;
  loss_sum = logged_sum_ = 0;
  iterations = logged_ = 0;
  logged_at_ = Clock::now();
}

void Report::show(std::optional<double> valid) {
  std::printf("Training epoch %lld\tLoss: %.4f\tPerplexity: %.2f", static_cast<long long>(epochs), last_,
              std::exp(last_));
  if (valid) std::printf("\tHeld out: %.4f\tPerplexity: %.2f", *valid, std::exp(*valid));
  std::putchar('\n');
  std::fflush(stdout);
  if (log_) {
    log_->add_scalar("loss/train", last_, epochs);
    if (valid) log_->add_scalar("loss/valid", *valid, epochs);
    log_->flush();
  }
}

void Report::finish(std::uint64_t rpcs) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto count = static_cast<double>(all_iterations_);
  std::printf("\n  iterations/s        %.0f", count * trainers_ / seconds);  // every trainer runs the same number
  if (trainers_ > 1) std::printf(" of %d trainers", trainers_);
  std::printf("\n");
  std::printf("  loss                %.4f in the first epoch, %.4f in the last\n", first_loss, last_);
  if (rpcs > 0) std::printf("  RPCs per iteration  %.2f\n", static_cast<double>(rpcs) / count);
  if (!losses_.is_open()) return;
  losses_.flush();
  check_losses();
  std::printf("  losses              %s\n", path_.c_str());
}

}  // namespace language_model
