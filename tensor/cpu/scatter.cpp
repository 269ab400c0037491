#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/index.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/cpu/slices.h"
#include "tendril/tensor/detail/dispatch.h"

/// What writes or adds by index.
namespace tendril::cpu {
namespace {

/// Whether an element is at several indices, so that lines that are not one another's may meet in it.
bool is_repeated_anywhere(const View& x) noexcept {
  for (int d = 0; d < x.ndim; ++d) {
    if (x.strides[d] == 0 && x.sizes[d] > 1) return true;
  }
  return false;
}

enum class Way : uint8_t { in_order, own_rows, own_columns, copies };
constexpr int64_t kShareOfColumns = 64;

/// Copies have other bits than the rows alone: sizes decide, not the number of threads. Of narrow slices looking
/// whether they are one's own takes as long as adding them.
template <class T>
Way way_to_add(const Slices<T>& line, int64_t lines) {
  constexpr int64_t kFewLines = 16, kNarrow = 8, kWide = 2 * kShareOfColumns;
  if (line.width < kWide && lines < kFewLines && pieces_with_copies(line).count() > 1) return Way::copies;
  if (line.width < kNarrow || num_threads() == 1) return Way::in_order;
  return line.width >= kWide && line.rows < num_threads() ? Way::own_columns : Way::own_rows;
}
template <class T>
void add(const Slices<T>& line, Way way) {
  switch (way) {
    case Way::in_order:
      return in_order(line, Add{});
    case Way::own_rows:
      return by_own_rows(line, Add{});
    case Way::own_columns:
      return by_own_columns(line, kShareOfColumns, Add{});
    case Way::copies:
      return add_by_copies(line, pieces_with_copies(line));
  }
}

/// Lines of index, out and source along a dimension.
template <class T>
struct Lines {
  const View &index, &out, &source;
  int dim;

  int64_t length() const noexcept { return index.sizes[dim]; }
  int64_t count() const noexcept { return index.numel / length(); }
  bool is_long() const noexcept { return length() >= 2 * kParallelGrain; }
  /// The line whose beginning is there.
  Slices<T> line(void* index_at, void* out_at, void* source_at) const {
    return {static_cast<T*>(out_at),
            out.strides[dim],
            out.sizes[dim],
            static_cast<const int64_t*>(index_at),
            index.strides[dim],
            static_cast<const T*>(source_at),
            source.strides[dim],
            length(),
            1};
  }
  Slices<T> first() const { return line(index.data, out.data, source.data); }

  /// Each in order; where they may meet, one after the other.
  template <class Put>
  void in_order(const Put& put, bool may_meet = false) const {
    const auto body = [put, number = length(), to = out.strides[dim], step = index.strides[dim],
                       from = source.strides[dim]](char* const* at) {
      put_line(reinterpret_cast<T*>(at[1]), to, reinterpret_cast<const int64_t*>(at[0]), step,
               reinterpret_cast<const T*>(at[2]), from, number, put);
    };
    if (may_meet) return for_each_line<3>({&index, &out, &source}, dim, body);
    share_lines<3>({&index, &out, &source}, dim, length(), body);
  }
  /// f(line) for one after the other.
  template <class F>
  void for_each(const F& f) const {
    for_each_line<3>({&index, &out, &source}, dim, [&](char* const* at) { f(line(at[0], at[1], at[2])); });
  }
};

template <class T>
void scatter_add_as(const View& out, int dim, const View& index, const View& source) {
  const Lines<T> lines{index, out, source, dim};
  if (is_repeated_anywhere(out)) return lines.in_order(Add{}, true);
  if (!lines.is_long()) return lines.in_order(Add{});
  const Way way = way_to_add(lines.first(), lines.count());
  if (way == Way::in_order) return lines.in_order(Add{});
  lines.for_each([&](const Slices<T>& line) { add(line, way); });
}

void scatter_add_checked(const View& out, int dim, const View& index, const View& source) {
  detail::visit(out.dtype, [&](auto tag) { scatter_add_as<typename decltype(tag)::type>(out, dim, index, source); });
}

/// The last of what is for one place is kept.
template <class Bits>
void scatter_as(const View& out, int dim, const View& index, const View& source) {
  const Lines<Bits> lines{index, out, source, dim};
  // From so many on a thread's own rows are worth that each of two threads looks at the whole index.
  constexpr int64_t kManyRows = (16 << 20) / sizeof(Bits);
  if (lines.is_long() && out.sizes[dim] >= kManyRows && lines.count() < num_threads() && !is_repeated_anywhere(out)) {
    return lines.for_each([](const Slices<Bits>& line) { by_own_rows(line, Write{}); });
  }
  lines.in_order(Write{});
}

/// Slices that are blocks of memory.
template <class T>
void add_slices(const View& out, const View& index, const View& source) {
  const int64_t count = source.sizes[0], width = source.numel / count;
  const Slices<T> all{out.as<T>(),
                      out.strides[0],
                      out.sizes[0],
                      index.as<const int64_t>(),
                      index.ndim == 0 ? 0 : index.strides[0],
                      source.as<const T>(),
                      source.strides[0],
                      count,
                      width};
  const bool alone = all.numel() < 2 * kParallelGrain || is_repeated_anywhere(out);
  add(all, alone ? Way::in_order : way_to_add(all, 1));
}

}  // namespace

void scatter_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "scatter_add: no cpu kernel for bool");
  check_indices(index, out.sizes[dim], dim, use);
  if (index.numel > 0) scatter_add_checked(out, dim, index, source);
}

void scatter(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  check_indices(index, out.sizes[dim], dim, use);
  if (index.numel == 0) return;
  tendril::detail::visit_bits(out.dtype,
                              [&](auto tag) { scatter_as<typename decltype(tag)::type>(out, dim, index, source); });
}

void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use) {
  TENDRIL_CHECK_AS(DTypeError, out.dtype != kBool, "index_add: no cpu kernel for bool");
  check_indices(index, out.sizes[dim], dim, use);
  if (source.numel == 0) return;
  if (dim == 0 && slices_lie_together(out, 0) && slices_lie_together(source, 0)) {
    took(Path::index_rows, source.numel);
    return detail::visit(out.dtype, [&](auto tag) { add_slices<typename decltype(tag)::type>(out, index, source); });
  }
  scatter_add_checked(out, dim, Spread(index, source, dim).view, source);
}

}  // namespace tendril::cpu
