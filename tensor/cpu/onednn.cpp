#include "tendril/tensor/cpu/onednn.h"

#include <dlfcn.h>
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/scratch.h"
#include "tendril/tensor/detail/out_of_memory.h"
#include "tendril/tensor/detail/prepared_weight.h"
#include "tendril/tensor/detail/signal_mask.h"
#include "tendril/tensor/deterministic.h"
#include "tendril/tensor/error.h"

namespace tendril::cpu::onednn {
namespace {

/// How BLAS is to read a matrix: in rows ('N') or columns ('T') that lie together. BLAS wants the distance between
/// them to be at least their length, also where there is but one.
struct Operand {
  char transposed;
  dnnl_dim_t stride;
};
bool describe(int64_t rows, int64_t columns, int64_t row, int64_t column, Operand& operand) {
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
    operand = {'N', std::max(row, columns)};
    return true;
  }
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
    operand = {'T', std::max(column, rows)};
    return true;
  }
  return false;
}

/// oneDNN's matrix products make the stack pointer point into the heap while they run, until 3.11 and 3.12 of 2026
/// (https://github.com/uxlfoundation/oneDNN/issues/4845): a signal handler would overwrite what lies before it. Up to
/// so many products a sum they stay on the stack, of which they take four pages: 84 on AVX-512, 252 on AVX2.
constexpr int64_t kSafeSum = 64;

/// While it lives, signals to this thread wait, and OpenMP gives regions that this thread starts no other thread: how
/// many there are would decide the last bits, and how many can be had depends on who else computes. Our threads have a
/// part each instead (conv_parts.cpp, matmul.cpp). Then what the user set counts again. The OpenMP runtime is the one
/// that oneDNN was linked with: found by name.
class OneThread {
 public:
  /// `sum`: products in one, if it is no more than a product of matrices: the smallest, which are safe, are spared two
  /// calls of the system.
  explicit OneThread(int64_t sum = INT64_MAX) {
    if (sum > kSafeSum) handled_afterwards_.emplace();
    if (!set_threads() || !max_threads()) return;
    before_ = max_threads()();
    if (before_ != 1) set_threads()(1);
  }
  ~OneThread() {
    if (before_ > 1) set_threads()(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  using SetThreads = void (*)(int);
  using MaxThreads = int (*)();
  static SetThreads set_threads() {
    static const auto found = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    return found;
  }
  static MaxThreads max_threads() {
    static const auto found = reinterpret_cast<MaxThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    return found;
  }

  std::optional<tendril::detail::SignalMask> handled_afterwards_;
  int before_ = 0;
};

[[noreturn]] void raise_failure(const char* op, dnnl_status_t status) {
  if (status == dnnl_out_of_memory) memory::detail::out_of_memory("oneDNN", op);
  tendril::detail::raise<Error>(op, ": oneDNN failed with status ", static_cast<int>(status));
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// Memory that a primitive needs while it runs is ours, from the tensors' pools: oneDNN's own would stay as large as
/// the largest ever needed, once for each thread.
dnnl::primitive_attr with_scratch_of_ours() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// What oneDNN will do, of which version 2 makes two steps and version 3 one.
template <class Primitive, class... Arguments>
auto describe_forward(const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), arguments..., with_scratch_of_ours());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), with_scratch_of_ours(), engine());
#endif
}
template <class Primitive, class Forward, class... Arguments>
auto describe_gradient(const Forward& forward, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine(), arguments..., forward, with_scratch_of_ours());
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), with_scratch_of_ours(), engine(),
                                            forward);
#endif
}

dnnl::stream& stream() {
  thread_local dnnl::stream of_this_thread(engine());
  return of_this_thread;
}

/// Runs a primitive to its end.
void execute(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
             std::unordered_map<int, dnnl::memory> arguments) {
  const Scratch<char> scratch(static_cast<int64_t>(scratchpad.get_size()));
  arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad, engine(), scratch.data()));
  primitive.execute(stream(), arguments);
  stream().wait();
}

/// From one row of the last three dimensions to the next, in elements.
int64_t step_of(const View& v) noexcept { return v.sizes[0] > 1 ? v.strides[0] : v.numel; }
/// From one channel's plane to the next in row-major order: larger than a plane where `v` is some rows of each.
int64_t plane_step_of(const View& v) noexcept { return v.sizes[1] > 1 ? v.strides[1] : v.sizes[2] * v.sizes[3]; }

/// Of images, or of a weight whose output channels are cut into groups.
dnnl::memory::dims strides_of(const View& v, bool channels_last, int64_t groups = 1) {
  const int64_t c = v.sizes[1], w = v.sizes[3], step = step_of(v);
  dnnl::memory::dims strides =
      channels_last ? dnnl::memory::dims{step, 1, w * c, c} : dnnl::memory::dims{step, plane_step_of(v), w, 1};
  if (groups > 1) strides.insert(strides.begin(), v.sizes[0] / groups * step);
  return strides;
}

/// For the filter's gradient of a 1x1 convolution with a stride, oneDNN first gathers the pixels that count. From
/// images in channels-last order with fewer channels than a vector has elements, it writes them beyond the memory that
/// it reserved (https://github.com/uxlfoundation/oneDNN/issues/6035, open in November 2026). Row-major images are safe.
bool onednn_overruns(Map map, const View& weight, const PartGeometry& g) noexcept {
  constexpr int64_t kMostElements = 16;  // of a vector, with AVX-512
  return map == Map::filter && weight.sizes[2] == 1 && weight.sizes[3] == 1 && (g.stride.h > 1 || g.stride.w > 1) &&
         weight.sizes[1] < kMostElements;
}

/// One map of a convolution of certain sizes, made once: oneDNN generates code for it, and says how the operands should
/// lie, which are turned before and after; but images in channels-last order are taken as they are. Throws dnnl::error
/// where there is none.
class Convolution {
 public:
  Convolution(dnnl::algorithm algorithm, Map map, const View& x, const View& weight, const View& out,
              const PartGeometry& g, ChannelsLast order, bool has_bias);
  /// `bias` is looked at where there is one; `prepared` may be null.
  void run(const std::array<void*, 3>& data, void* bias, tendril::detail::PreparedForms* prepared) const;

 private:
  enum : std::size_t { kX, kWeight, kOut };
  struct Operand {
    int argument;
    dnnl::memory::desc plain, wanted;
    std::optional<dnnl::reorder> turn;  // to what is wanted, or back; none: it lies right
  };
  /// A weight as it is wanted.
  struct Turned final : tendril::detail::PreparedForms::Form {
    Turned(const Operand& weight, const void* elements)
        : Form(weight.wanted.get_size()),
          from(elements),
          plain(weight.plain),
          wanted(weight.wanted),
          memory(static_cast<int64_t>(weight.wanted.get_size())) {}
    const void* from;
    dnnl::memory::desc plain, wanted;
    Scratch<char> memory;
  };

  /// Turned now or once.
  std::shared_ptr<const Turned> weight_as_wanted(void* data, tendril::detail::PreparedForms* prepared) const;

  std::array<Operand, 3> operands_;
  std::optional<dnnl::memory::desc> bias_;
  std::size_t written_;
  bool winograd_;
  dnnl::memory::desc scratchpad_;
  dnnl::primitive primitive_;
};

Convolution::Convolution(dnnl::algorithm algorithm, Map map, const View& x, const View& weight, const View& out,
                         const PartGeometry& g, ChannelsLast order, bool has_bias)
    : written_(map == Map::result ? kOut
               : map == Map::data ? kX
                                  : kWeight),
      winograd_(algorithm == dnnl::algorithm::convolution_winograd) {
  using Dims = dnnl::memory::dims;
  using Tag = dnnl::memory::format_tag;
  using Description = dnnl::memory::desc;
  constexpr auto f32 = dnnl::memory::data_type::f32;
  const auto dims_of = [](const View& v) { return Dims(v.sizes, v.sizes + v.ndim); };
  Dims kernels = dims_of(weight);
  if (g.groups > 1) {
    kernels[0] /= g.groups;
    kernels.insert(kernels.begin(), g.groups);
  }
  const Dims images = dims_of(x), results = dims_of(out), strides{g.stride.h, g.stride.w},
             dilation{g.dilation.h - 1, g.dilation.w - 1}, before{g.padding.h, g.padding.w},
             behind{g.below, g.padding.w};
  const Tag wanted = onednn_overruns(map, weight, g) ? Tag::nchw : order.images && !winograd_ ? Tag::nhwc : Tag::any;
  const Description any_x(images, f32, wanted), any_weight(kernels, f32, Tag::any), any_out(results, f32, wanted);
  if (has_bias) bias_.emplace(Dims{out.sizes[1]}, f32, Tag::x);
  const auto describe = [&](const auto&... bias) {
    return describe_forward<dnnl::convolution_forward>(dnnl::prop_kind::forward_training, algorithm, any_x, any_weight,
                                                       bias..., any_out, strides, dilation, before, behind);
  };
  const auto forward = has_bias ? describe(*bias_) : describe();
  operands_[kX].plain = Description(images, f32, strides_of(x, order.images));
  operands_[kWeight].plain = Description(kernels, f32, strides_of(weight, order.weight, g.groups));
  operands_[kOut].plain = Description(results, f32, strides_of(out, order.images));
  const auto wants = [&](int x_is, const Description& x_wanted, int weight_is, const Description& weight_wanted,
                         int out_is, const Description& out_wanted) {
    operands_[kX].argument = x_is, operands_[kX].wanted = x_wanted;
    operands_[kWeight].argument = weight_is, operands_[kWeight].wanted = weight_wanted;
    operands_[kOut].argument = out_is, operands_[kOut].wanted = out_wanted;
  };
  if (map == Map::result) {
    primitive_ = dnnl::convolution_forward(forward);
    scratchpad_ = forward.scratchpad_desc();
    wants(DNNL_ARG_SRC, forward.src_desc(), DNNL_ARG_WEIGHTS, forward.weights_desc(), DNNL_ARG_DST, forward.dst_desc());
  } else if (map == Map::data) {
    const auto gradient = describe_gradient<dnnl::convolution_backward_data>(
        forward, algorithm, any_x, any_weight, any_out, strides, dilation, before, behind);
    primitive_ = dnnl::convolution_backward_data(gradient);
    scratchpad_ = gradient.scratchpad_desc();
    wants(DNNL_ARG_DIFF_SRC, gradient.diff_src_desc(), DNNL_ARG_WEIGHTS, gradient.weights_desc(), DNNL_ARG_DIFF_DST,
          gradient.diff_dst_desc());
  } else {
    const auto gradient = describe_gradient<dnnl::convolution_backward_weights>(
        forward, algorithm, any_x, any_weight, any_out, strides, dilation, before, behind);
    primitive_ = dnnl::convolution_backward_weights(gradient);
    scratchpad_ = gradient.scratchpad_desc();
    wants(DNNL_ARG_SRC, gradient.src_desc(), DNNL_ARG_DIFF_WEIGHTS, gradient.diff_weights_desc(), DNNL_ARG_DIFF_DST,
          gradient.diff_dst_desc());
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    Operand& operand = operands_[i];
    if (operand.wanted == operand.plain) continue;
    const Description &from = i == written_ ? operand.wanted : operand.plain,
                      &to = i == written_ ? operand.plain : operand.wanted;
    operand.turn.emplace(dnnl::reorder::primitive_desc(engine(), from, engine(), to));
  }
}

std::shared_ptr<const Convolution::Turned> Convolution::weight_as_wanted(
    void* data, tendril::detail::PreparedForms* prepared) const {
  const Operand& weight = operands_[kWeight];
  const auto fits = [&](const Turned& form) {
    return form.from == data && form.wanted == weight.wanted && form.plain == weight.plain;
  };
  if (prepared) {
    if (auto found = prepared->find<Turned>(fits)) return found;
  }
  auto turned = std::make_shared<const Turned>(weight, data);
  dnnl::memory from(weight.plain, engine(), data), to(weight.wanted, engine(), turned->memory.data());
  dnnl::reorder(*weight.turn).execute(stream(), from, to);
  stream().wait();
  took(Path::turned_weight);
  return prepared ? prepared->keep<Turned>(std::move(turned), fits) : turned;
}

void Convolution::run(const std::array<void*, 3>& data, void* bias, tendril::detail::PreparedForms* prepared) const {
  std::shared_ptr<const Turned> weight;
  std::array<std::optional<Scratch<char>>, 3> scratch;
  std::array<dnnl::memory, 3> plain, taken;
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    taken[i] = plain[i] = dnnl::memory(operand.plain, engine(), data[i]);
    if (!operand.turn) continue;
    if (i == kWeight && i != written_) {
      weight = weight_as_wanted(data[i], prepared);
      taken[i] = dnnl::memory(operand.wanted, engine(), weight->memory.data());
      continue;
    }
    scratch[i].emplace(static_cast<int64_t>(operand.wanted.get_size()));
    taken[i] = dnnl::memory(operand.wanted, engine(), scratch[i]->data());
    if (i != kWeight) took(Path::turned_image);
    if (i != written_) dnnl::reorder(*operand.turn).execute(stream(), plain[i], taken[i]);
  }
  std::unordered_map<int, dnnl::memory> arguments;
  for (std::size_t i = 0; i < operands_.size(); ++i) arguments.emplace(operands_[i].argument, taken[i]);
  if (bias_) arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(*bias_, engine(), bias));
  execute(primitive_, scratchpad_, std::move(arguments));
  if (operands_[written_].turn) {
    dnnl::reorder(*operands_[written_].turn).execute(stream(), taken[written_], plain[written_]);
    stream().wait();
  }
  if (winograd_) took(Path::onednn_winograd);
}

/// oneDNN's Winograd's form (winograd.h says what that is) took 0.4 of the time, and more with few channels or few
/// pixels. Images in channels-last order are turned for it. Not in deterministic mode: whether it pays depends on how
/// the images were cut into parts.
bool winograd_pays(const View& x, const View& weight, const View& out, const PartGeometry& g,
                   ChannelsLast order) noexcept {
  const int64_t pixels = out.sizes[0] * out.sizes[2] * out.sizes[3], channels = std::min(x.sizes[1], out.sizes[1]);
  return has_winograd() && !deterministic() && weight.sizes[2] == 3 && weight.sizes[3] == 3 && g.stride.h == 1 &&
         g.stride.w == 1 && g.dilation.h == 1 && g.dilation.w == 1 && g.padding.h <= 1 && g.below <= 1 &&
         g.padding.w <= 1 && g.groups == 1 && channels >= (order.images ? 64 : 16) &&
         pixels >= (channels >= 64 ? 256 : 768);
}

/// Those of this thread, by all that decides which code runs; null: oneDNN has none.
const Convolution* convolution_for(Map map, const View& x, const View& weight, const View& out, const PartGeometry& g,
                                   ChannelsLast order, bool has_bias) {
  using Key = std::array<int64_t, 24>;
  constexpr std::size_t kMost = 512;
  thread_local std::map<Key, std::unique_ptr<Convolution>> made;
  const bool winograd = winograd_pays(x, weight, out, g, order);
  const Key key{static_cast<int64_t>(map),
                x.sizes[0],
                x.sizes[1],
                x.sizes[2],
                x.sizes[3],
                weight.sizes[0],
                weight.sizes[1],
                weight.sizes[2],
                weight.sizes[3],
                g.stride.h,
                g.stride.w,
                g.padding.h,
                g.below,
                g.padding.w,
                g.dilation.h,
                g.dilation.w,
                g.groups,
                has_bias ? 1 : 0,
                (order.images ? 1 : 0) + (order.weight ? 2 : 0) + (winograd ? 4 : 0),
                step_of(x),
                step_of(weight),
                step_of(out),
                plane_step_of(x),
                plane_step_of(out)};
  const auto found = made.find(key);
  if (found != made.end()) return found->second.get();
  std::unique_ptr<Convolution> convolution;
  const auto make = [&](dnnl::algorithm algorithm) {
    try {
      convolution = std::make_unique<Convolution>(algorithm, map, x, weight, out, g, order, has_bias);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) throw;
    }
  };
  if (winograd) make(dnnl::algorithm::convolution_winograd);
  if (!convolution) make(dnnl::algorithm::convolution_direct);
  if (made.size() >= kMost) made.clear();
  return made.emplace(key, std::move(convolution)).first->second.get();
}

bool is_version_2_for(dnnl::cpu_isa isa) {
  const auto needed = static_cast<unsigned>(isa);
  return DNNL_VERSION_MAJOR == 2 && (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

}  // namespace

bool has_winograd() noexcept {
  static const bool has = is_version_2_for(dnnl::cpu_isa::avx512_core);
  return has;
}

bool dislikes_crowded_rows() noexcept {
  static const bool does = is_version_2_for(dnnl::cpu_isa::avx2) && !has_winograd();
  return does;
}

bool convolve(Map map, const View& x, const View& weight, const View& out, const PartGeometry& geometry,
              ChannelsLast order, const View* bias, tendril::detail::PreparedForms* prepared) try {
  const OneThread alone;
  const Convolution* const convolution = convolution_for(map, x, weight, out, geometry, order, bias != nullptr);
  if (!convolution) return false;
  convolution->run({x.data, weight.data, out.data}, bias ? bias->data : nullptr, prepared);
  took(Path::onednn_convolution);
  return true;
} catch (const dnnl::error& e) {
  raise_failure("conv2d", e.status);
}

bool available() noexcept { return true; }

namespace {

/// False: it has strides that BLAS cannot be told.
bool describe(const Gemm& g, Operand& a, Operand& b, Operand& out) noexcept {
  return describe(g.m, g.k, g.a_row, g.a_column, a) && describe(g.k, g.n, g.b_row, g.b_column, b) &&
         describe(g.m, g.n, g.out_row, g.out_column, out) && out.transposed == 'N';
}

}  // namespace

bool takes(const Gemm& g) noexcept {
  Operand a, b, out;
  return describe(g, a, b, out);
}

bool sgemm(const Gemm& g) {
  Operand a, b, out;
  if (!describe(g, a, b, out)) return false;
  const OneThread alone(g.k);
  const auto* x = static_cast<const float*>(g.a);
  const auto* y = static_cast<const float*>(g.b);
  const dnnl_status_t status = dnnl_sgemm(a.transposed, b.transposed, g.m, g.n, g.k, 1.0f, x, a.stride, y, b.stride,
                                          g.accumulate ? 1.0f : 0.0f, static_cast<float*>(g.out), out.stride);
  if (status != dnnl_success) raise_failure("matmul", status);
  took(Path::onednn_product, g.m * g.n * g.k);
  return true;
}

namespace {

/// Whether the processor multiplies bfloat16. (Without, oneDNN emulates it at less than the speed of float32.)
bool multiplies_bfloat16() {
  static const bool does = [] {
    constexpr auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
  }();
  return does;
}

/// One product's code, and how its operands lie.
struct Product {
  dnnl::memory::desc a, b, out, scratchpad;
  dnnl::matmul run;
};

/// Those of this thread, as `convolution_for` has them.
const Product* product_for(const Gemm& g, const Operand& a, const Operand& b, const Operand& out, bool float32_result) {
  using Key = std::array<int64_t, 9>;
  constexpr std::size_t kMost = 512;
  thread_local std::map<Key, std::unique_ptr<Product>> made;
  const Key key{g.m, g.n, g.k, a.transposed, a.stride, b.transposed, b.stride, out.stride, float32_result ? 1 : 0};
  const auto found = made.find(key);
  if (found != made.end()) return found->second.get();
  using Type = dnnl::memory::data_type;
  const auto matrix = [](int64_t rows, int64_t columns, const Operand& o, Type type) {
    const bool turned = o.transposed == 'T';
    return dnnl::memory::desc({rows, columns}, type, dnnl::memory::dims{turned ? 1 : o.stride, turned ? o.stride : 1});
  };
  const auto x = matrix(g.m, g.k, a, Type::bf16), y = matrix(g.k, g.n, b, Type::bf16),
             to = matrix(g.m, g.n, out, float32_result ? Type::f32 : Type::bf16);
  std::unique_ptr<Product> product;
  try {
    const auto described = describe_forward<dnnl::matmul>(x, y, to);
    product = std::make_unique<Product>(Product{x, y, to, described.scratchpad_desc(), dnnl::matmul(described)});
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented && e.status != dnnl_invalid_arguments) throw;
  }
  if (made.size() >= kMost) made.clear();
  return made.emplace(key, std::move(product)).first->second.get();
}

}  // namespace

bool bfloat16_gemm(const Gemm& g, bool float32_result) try {
  Operand a, b, out;
  if (!multiplies_bfloat16() || !describe(g, a, b, out) || g.accumulate) return false;
  const OneThread alone;
  const Product* const product = product_for(g, a, b, out, float32_result);
  if (!product) return false;
  execute(product->run, product->scratchpad,
          {{DNNL_ARG_SRC, dnnl::memory(product->a, engine(), const_cast<void*>(g.a))},
           {DNNL_ARG_WEIGHTS, dnnl::memory(product->b, engine(), const_cast<void*>(g.b))},
           {DNNL_ARG_DST, dnnl::memory(product->out, engine(), g.out)}});
  took(Path::onednn_bfloat16);
  return true;
} catch (const dnnl::error& e) {
  raise_failure("matmul", e.status);
}

}  // namespace tendril::cpu::onednn
