#include "report.h"

#include <tendril/data/images.h>
#include <tendril/tensor/creation.h>

#include <cinttypes>
#include <cstdio>

namespace image_classifier {

void print_start(const LabelledImages& images, const LabelledImages& test, std::int64_t parameters, std::uint64_t epoch,
                 std::int64_t batch) {
  if (epoch > 0 || batch > 0) std::printf("Going on after epoch %" PRIu64 ", batch %" PRId64 "\n", epoch, batch);
  std::printf("%" PRId64 " images to learn from, %" PRId64 " to test; %" PRId64 " parameters\n", images.size(),
              test.size(), parameters);
  std::fflush(stdout);
}

double accuracy(const LabelledImages& test, const std::vector<std::int64_t>& predicted) {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < test.size(); ++i) {
    right += test.labels.data<std::int64_t>()[i] == predicted[static_cast<std::size_t>(i)];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

void print_epoch(std::uint64_t epoch, double loss, double accuracy) {
  std::printf("Epoch %" PRIu64 "\tLoss: %.4f\tAccuracy: %.2f %%\n", epoch, loss, 100 * accuracy);
  std::fflush(stdout);
}

void print_confusion(const LabelledImages& test, const std::vector<std::int64_t>& predicted) {
  const std::size_t count = test.classes.size();
  if (count > 20) return;  // too wide for a terminal
  std::vector<std::vector<int>> times(count, std::vector<int>(count));
  const auto labels = test.labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ++times[static_cast<std::size_t>(labels[i])][static_cast<std::size_t>(predicted[i])];
  }
  std::printf("\nlabel        taken for\n%12s", "");
  for (const std::string& name : test.classes) std::printf(" %5.5s", name.c_str());
  for (std::size_t i = 0; i < count; ++i) {
    std::printf("\n%-12.12s", test.classes[i].c_str());
    for (const int n : times[i]) std::printf(" %5d", n);
  }
  std::printf("\n\n");
}

void save_mistakes(const LabelledImages& test, const std::vector<std::int64_t>& predicted, const std::string& file) {
  std::vector<std::int64_t> wrong;
  for (std::int64_t i = 0; i < test.size() && wrong.size() < 64; ++i) {
    if (test.labels.data<std::int64_t>()[i] != predicted[static_cast<std::size_t>(i)]) wrong.push_back(i);
  }
  if (wrong.empty()) return;
  const tendril::Tensor which = tendril::tensor(wrong);
  tendril::data::save_png(tendril::data::image_grid(test.images.index_select(0, which)), file);
  std::printf("  mistakes            %s, the first %zu\n", file.c_str(), wrong.size());
}

}  // namespace image_classifier
