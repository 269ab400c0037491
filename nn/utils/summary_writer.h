#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

namespace tendril::nn::utils {

/// Curves, histograms, pictures and texts of a training run for TensorBoard, which watches the folder: `tensorboard
/// --logdir runs`. As PyTorch's torch.utils.tensorboard.SummaryWriter: one file of events a writer, whose records it
/// never changes again. Thread-safety: all members.
class SummaryWriter {
 public:
  /// Makes the folder, if it is not there, and a file of its own in it. Throws Error where that cannot be done.
  explicit SummaryWriter(const std::filesystem::path& log_dir);
  ~SummaryWriter();  ///< as `flush`, but what cannot be written is lost
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  /// One point of the curve `tag`; "loss/train" and "loss/valid" are shown beside each other. TensorBoard keeps
  /// float32. `wall_time`: seconds since 1970, now by default. Throws Error if the file cannot be written.
  void add_scalar(std::string_view tag, double value, int64_t step, std::optional<double> wall_time = {});
  /// A text (Markdown) that belongs to a step.
  void add_text(std::string_view tag, std::string_view text, int64_t step, std::optional<double> wall_time = {});
  /// How often which values occur: of a layer's weights, say. `values` is of any shape, dtype and device, and copied to
  /// the CPU. As PyTorch's with bins="tensorflow" (its default): the buckets end at 0 and at +-1e-12 * 1.1^k. NaN and
  /// infinities are left out; Error where nothing is left, or nothing within +-1e20.
  void add_histogram(std::string_view tag, const Tensor& values, int64_t step, std::optional<double> wall_time = {});
  /// A picture: a whole PNG file, as `data::encode_png` makes them, of which the head is checked (Error).
  ///
  ///     writer.add_image("mistakes", data::encode_png(data::image_grid(images)), step);
  void add_image(std::string_view tag, std::span<const std::byte> png, int64_t step,
                 std::optional<double> wall_time = {});
  /// Hands the file to the operating system all that was added. This and all that adds throw Error where that fails,
  /// on a full disk say, and ever after: what would come behind a part of a record, no reader could find.
  void flush();

  /// The file that it writes.
  const std::filesystem::path& file() const noexcept { return path_; }

 private:
  void write(std::string_view event);
  void check_whole() const;

  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::mutex mutex_;
  bool failed_ = false;  // it may end in a part of a record, behind which nobody can read
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tendril::nn::utils

TENDRIL_API_END
