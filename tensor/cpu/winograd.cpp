#include "tendril/tensor/cpu/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/cpu/parallel.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/threads.h"

namespace tendril::cpu::winograd {
namespace {

constexpr int64_t kLanes = kWinogradLanes, kPanel = kWinogradPanel;
constexpr int64_t kTile = 4, kPatch = 6, kElements = kPatch * kPatch;
constexpr int64_t kTilesAtOnce = 48;  // as fast as any of those tried, from 24 to 512
constexpr int64_t kGap = 16;  // numbers between elements' matrices, lest all lie in the same places of the cache

/// Rows of pixels of kLanes channels beside each other: of one row of tiles, or some of it.
class Strip {
 public:
  static constexpr int64_t kTiles = 16;

  explicit Strip(const View& images) : v_(images) {}

  /// Pixels outside the image are 0.
  void gather(int64_t image, int64_t channel, int64_t top, int64_t left, int64_t rows, int64_t columns) {
    const int64_t begin = std::clamp<int64_t>(-left, 0, columns),
                  end = std::clamp<int64_t>(v_.sizes[3] - left, begin, columns);
    for (int64_t i = 0; i < rows; ++i) {
      float* const to = pixels_ + i * columns * kLanes;
      if (top + i < 0 || top + i >= v_.sizes[2] || begin == end) {
        std::fill_n(to, columns * kLanes, 0.0F);
        continue;
      }
      std::fill_n(to, begin * kLanes, 0.0F);
      const float* const from = pixel(image, channel, top + i, left + begin);
      if (v_.strides[1] == 1) {
        for (int64_t j = 0; j < end - begin; ++j) {
          std::memcpy(to + (begin + j) * kLanes, from + j * v_.strides[3], kLanes * sizeof(float));
        }
      } else {
        turn(to + begin * kLanes, kLanes, from, v_.strides[1], kLanes, end - begin);
      }
      std::fill_n(to + end * kLanes, (columns - end) * kLanes, 0.0F);
    }
  }
  /// Those inside the image.
  void scatter(int64_t image, int64_t channel, int64_t top, int64_t left, int64_t rows, int64_t columns) const {
    const int64_t width = std::min(columns, v_.sizes[3] - left);
    for (int64_t i = 0; i < std::min(rows, v_.sizes[2] - top); ++i) {
      const float* const from = pixels_ + i * columns * kLanes;
      float* const to = pixel(image, channel, top + i, left);
      if (v_.strides[1] == 1) {
        for (int64_t j = 0; j < width; ++j) {
          std::memcpy(to + j * v_.strides[3], from + j * kLanes, kLanes * sizeof(float));
        }
      } else {
        turn(to, v_.strides[1], from, kLanes, width, kLanes);
      }
    }
  }
  float* data() noexcept { return pixels_; }

 private:
  float* pixel(int64_t image, int64_t channel, int64_t i, int64_t j) const {
    return v_.as<float>() + image * v_.strides[0] + channel * v_.strides[1] + i * v_.strides[2] + j * v_.strides[3];
  }
  /// Rows become columns; steps in elements.
  static void turn(float* out, int64_t out_step, const float* x, int64_t x_step, int64_t width, int64_t height) {
    constexpr int64_t kUnit = sizeof(float);
    loops().transpose.near[2](reinterpret_cast<char*>(out), out_step * kUnit, reinterpret_cast<const char*>(x),
                              x_step * kUnit, width, height);
  }

  const View& v_;
  alignas(64) float pixels_[kPatch * (kTile * kTiles + 2) * kLanes];
};

/// A matrix for each of a tile's elements.
class Matrices {
 public:
  explicit Matrices(int64_t numbers) : step_(numbers + kGap), all_(kElements * step_) {}
  int64_t step() const noexcept { return step_; }
  float* data() const noexcept { return all_.data(); }
  float* operator[](int64_t element) const noexcept { return all_.data() + element * step_; }

 private:
  int64_t step_;
  Scratch<float> all_;
};

/// The tiles of all images' results, one behind the other.
struct Tiles {
  int64_t images, rows, columns;

  explicit Tiles(const View& results)
      : images(results.sizes[0]),
        rows((results.sizes[2] + kTile - 1) / kTile),
        columns((results.sizes[3] + kTile - 1) / kTile) {}
  int64_t count() const noexcept { return images * rows * columns; }

  /// Tiles beside each other of one image.
  struct Run {
    int64_t image, top, left;  // of the first one's results
    int64_t first, count;      // `first` of those that are gone through
    int64_t width() const noexcept { return kTile * count; }
  };
  template <class Body>
  void for_each_run(int64_t begin, int64_t end, const Body& body) const {
    for (int64_t tile = begin; tile < end;) {
      const int64_t column = tile % columns, row = tile / columns;
      const int64_t count = std::min({end - tile, columns - column, Strip::kTiles});
      body(Run{row / rows, row % rows * kTile, column * kTile, tile - begin, count});
      tile += count;
    }
  }
};

/// The patches of tiles [begin, end) of channels [channel, channel_end), as [tiles][channels] matrices.
void map_patches(const View& x, Size2 padding, const Tiles& tiles, int64_t begin, int64_t end, int64_t channel,
                 int64_t channel_end, const Matrices& to) {
  const int64_t channels = channel_end - channel;
  Strip strip(x);
  tiles.for_each_run(begin, end, [&](const Tiles::Run& run) {
    const int64_t columns = run.width() + kPatch - kTile;
    for (int64_t c = channel; c < channel_end; c += kLanes) {
      strip.gather(run.image, c, run.top - padding.h, run.left - padding.w, kPatch, columns);
      loops().winograd.patches(strip.data(), columns, run.count, to.data() + run.first * channels + (c - channel),
                               to.step(), channels);
    }
  });
}

/// Of matrices of panels of `rows` rows each (kPanel channels wide), where channel c of a row begins.
int64_t place_in_panels(int64_t c, int64_t rows, int64_t row) noexcept {
  return (c / kPanel * rows + row) * kPanel + c % kPanel;
}

/// body(begin, end, other, other_end) for parts of a grid of `count` by `others` pieces, `across` by `along` of them.
template <class Body>
void for_each_part_of(int64_t count, int64_t across, int64_t others, int64_t along, const Body& body) {
  for_each_part(across * along, [&](int64_t part) {
    const int64_t i = part / along, j = part % along;
    body(count * i / across, count * (i + 1) / across, others * j / along, others * (j + 1) / along);
  });
}

/// A weight's kernels, mapped.
struct MappedWeight final : tendril::detail::PreparedForms::Form {
  MappedWeight(const WinogradKernels& weight, int64_t out, int64_t in)
      : Form(static_cast<std::size_t>(kElements * out * in) * sizeof(float)),
        from(weight),
        channels{out, in},
        matrices(out * in) {}
  WinogradKernels from;
  std::array<int64_t, 2> channels;
  Matrices matrices;
};

/// out = x * kernels, of as many channels as each has; images begin `padding` before the first result.
struct Convolution {
  const View &out, &x;
  WinogradKernels kernels;  // lanes along out's channels
  Size2 padding;
  const float* bias = nullptr;
  bool relu = false;
  tendril::detail::PreparedForms* prepared = nullptr;

  void run() const {
    constexpr int64_t kFewTiles = 24;  // with fewer a part, panels are shared out, too
    const int64_t tiles = Tiles(out).count(), panels = out.sizes[1] / kPanel, threads = num_threads();
    const std::shared_ptr<const MappedWeight> weight = mapped_weight();
    const Matrices& mapped = weight->matrices;
    const int64_t across = std::clamp<int64_t>(tiles / kFewTiles, 1, threads),
                  along = std::clamp<int64_t>(threads / across, 1, panels);
    for_each_part_of(tiles, across, panels, along, [&](int64_t begin, int64_t end, int64_t panel, int64_t panel_end) {
      run_part(mapped, begin, end, panel, panel_end);
    });
    took(Path::own_winograd);
  }

 private:
  /// Mapped now or once.
  std::shared_ptr<const MappedWeight> mapped_weight() const {
    const std::array<int64_t, 2> channels{out.sizes[1], x.sizes[1]};
    const auto fits = [&](const MappedWeight& form) { return form.from == kernels && form.channels == channels; };
    if (prepared) {
      if (auto found = prepared->find<MappedWeight>(fits)) return found;
    }
    auto mapped = std::make_shared<const MappedWeight>(kernels, channels[0], channels[1]);
    map_kernels(mapped->matrices);
    took(Path::mapped_weight);
    return prepared ? prepared->keep<MappedWeight>(std::move(mapped), fits) : mapped;
  }

  /// As panels of out's channels, whose rows are x's.
  void map_kernels(const Matrices& to) const {
    const int64_t channels = x.sizes[1], groups = out.sizes[1] / kLanes;
    parallel_for(groups * channels, kParallelGrain / kElements, [&](int64_t begin, int64_t end) {
      for (int64_t count; begin < end; begin += count) {
        const int64_t c = begin / channels * kLanes, first = begin % channels;
        count = std::min(channels - first, end - begin);
        WinogradKernels some = kernels;
        some.data += c * kernels.lane_step + first * kernels.other_step;
        loops().winograd.kernels(some, count, to.data() + place_in_panels(c, channels, first), to.step());
      }
    });
  }

  /// Tiles [begin, end) of panels [panel, panel_end).
  void run_part(const Matrices& mapped, int64_t begin, int64_t end, int64_t panel, int64_t panel_end) const {
    const Tiles tiles(out);
    const int64_t depth = x.sizes[1], most = std::min(kTilesAtOnce, end - begin), panels = panel_end - panel;
    const Matrices patches(most * depth), products(most * panels * kPanel);
    for (; begin < end; begin += most) {
      const int64_t count = std::min(most, end - begin);
      map_patches(x, padding, tiles, begin, begin + count, 0, depth, patches);
      for (int64_t e = 0; e < kElements; ++e) {
        for (int64_t p = 0; p < panels; ++p) {
          loops().winograd.multiply(patches[e], depth, 1, mapped[e] + (panel + p) * depth * kPanel, depth,
                                    products[e] + p * count * kPanel, count, false);
        }
      }
      write_results(products, tiles, begin, count, panel * kPanel, panels * kPanel);
    }
  }

  /// `count` tiles of `channels` channels.
  void write_results(const Matrices& products, const Tiles& tiles, int64_t begin, int64_t count, int64_t channel,
                     int64_t channels) const {
    Strip strip(out);
    tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
      for (int64_t c = 0; c < channels; c += kLanes) {
        loops().winograd.results(products.data() + place_in_panels(c, count, run.first), products.step(), kPanel,
                                 run.count, bias ? bias + channel + c : nullptr, relu, strip.data(), run.width());
        strip.scatter(run.image, channel + c, run.top, run.left, kTile, run.width());
      }
    });
  }
};

/// The gradient of the weight.
struct Filter {
  const View &weight, &x, &out;
  Size2 padding;

  void run() const {
    const int64_t groups = x.sizes[1] / kLanes, panels = out.sizes[1] / kPanel, threads = num_threads();
    const int64_t across = std::min(groups, threads), along = std::clamp<int64_t>(threads / across, 1, panels);
    for_each_part_of(groups, across, panels, along, [&](int64_t begin, int64_t end, int64_t panel, int64_t panel_end) {
      run_part(begin * kLanes, end * kLanes, panel * kPanel, panel_end * kPanel);
    });
    took(Path::own_winograd);
  }

 private:
  /// x's channels [begin, end), out's [given, given_end): sums over all tiles, in their order.
  void run_part(int64_t begin, int64_t end, int64_t given, int64_t given_end) const {
    const Tiles tiles(out);
    const int64_t channels = end - begin, others = given_end - given, most = std::min(kTilesAtOnce, tiles.count());
    const Matrices patches(most * channels), gradients(most * others), sums(channels * others);
    for (int64_t tile = 0; tile < tiles.count(); tile += most) {
      const int64_t count = std::min(most, tiles.count() - tile);
      map_patches(x, padding, tiles, tile, tile + count, begin, end, patches);
      map_gradients(tiles, tile, count, given, others, gradients);
      for (int64_t e = 0; e < kElements; ++e) {
        for (int64_t p = 0; p < others / kPanel; ++p) {
          loops().winograd.multiply(patches[e], 1, channels, gradients[e] + p * count * kPanel, count,
                                    sums[e] + p * channels * kPanel, channels, tile > 0);
        }
      }
    }
    const int64_t* const w = weight.strides;
    for (int64_t c = 0; c < others; c += kLanes) {
      loops().winograd.kernel_gradients(
          sums.data() + place_in_panels(c, channels, 0), sums.step(), channels,
          {weight.as<float>() + (given + c) * w[0] + begin * w[1], w[0], w[1], w[2], w[3]});
    }
  }

  /// Of `count` tiles of `channels` channels, as panels of channels, whose rows are tiles.
  void map_gradients(const Tiles& tiles, int64_t begin, int64_t count, int64_t channel, int64_t channels,
                     const Matrices& to) const {
    Strip strip(out);
    tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
      for (int64_t c = 0; c < channels; c += kLanes) {
        strip.gather(run.image, channel + c, run.top, run.left, kTile, run.width());
        loops().winograd.gradients(strip.data(), run.width(), run.count,
                                   to.data() + place_in_panels(c, count, run.first), to.step(), kPanel);
      }
    });
  }
};

bool in_order(const View& images) noexcept { return images.strides[1] == 1 || images.strides[3] == 1; }

/// Of 130 shapes of 16 to 512 channels and 32 to 25,088 pixels those with fewer pixels, or of tiles of which less than
/// half is in the image, lost or gained little; the others took 0.3 to 1.0 of the time of oneDNN's direct form, but for
/// one figure of some 360 (1.16).
bool pays(const View& x, const View& weight, const View& out, const ConvGeometry& g) noexcept {
  constexpr int64_t kFewPixels = 96;
  const bool possible = x.dtype == kFloat32 && weight.sizes[2] == 3 && weight.sizes[3] == 3 && g.stride == Size2(1) &&
                        g.dilation == Size2(1) && g.padding.h <= 1 && g.padding.w <= 1 && g.groups == 1 &&
                        x.sizes[1] % kPanel == 0 && out.sizes[1] % kPanel == 0 && in_order(x) && in_order(out);
  const int64_t pixels = out.sizes[0] * out.sizes[2] * out.sizes[3];
  return possible && pixels >= kFewPixels && x.numel > 0 && out.numel > 0 &&
         pixels * 2 >= Tiles(out).count() * kTile * kTile;
}

}  // namespace

bool conv2d(const View& out, const View& x, const View& weight, const View* bias, bool relu, const ConvGeometry& g,
            tendril::detail::PreparedForms* prepared) {
  if (!pays(x, weight, out, g)) return false;
  const int64_t* const w = weight.strides;
  const float* const shift = bias ? bias->as<const float>() : nullptr;
  Convolution{out, x, {weight.as<float>(), w[0], w[1], w[2], w[3]}, g.padding, shift, relu, prepared}.run();
  return true;
}

bool conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& g,
                 tendril::detail::PreparedForms* prepared) {
  if (!pays(x, weight, out, g)) return false;
  const int64_t* const w = weight.strides;  // the kernels turned around, from the results' channels to the images'
  const WinogradKernels turned{weight.as<float>() + 2 * w[2] + 2 * w[3], w[1], w[0], -w[2], -w[3]};
  Convolution{x, out, turned, {2 - g.padding.h, 2 - g.padding.w}, nullptr, false, prepared}.run();
  return true;
}

bool conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& g) {
  if (!pays(x, weight, out, g)) return false;
  Filter{weight, x, out, g.padding}.run();
  return true;
}

}  // namespace tendril::cpu::winograd
