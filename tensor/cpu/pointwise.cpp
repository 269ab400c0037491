#include <algorithm>
#include <array>

#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/half_blocks.h"
#include "tendril/tensor/cpu/loops.h"
#include "tendril/tensor/cpu/paths.h"
#include "tendril/tensor/detail/dispatch.h"

namespace tendril::cpu {
namespace {

template <class Op, class F>
F served(const ByOp<Op, F>& table, Op op, DType dtype) {
  const F loop = table[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
  TENDRIL_CHECK_AS(DTypeError, loop, name_of(op), ": no cpu kernel for ", dtype);
  return loop;
}

/// As `run`, with the number behind the operands. A function of its own, whose frame the others do not pay for.
template <std::size_t N>
[[gnu::noinline]] void run_with_parameter(Loop loop, const std::array<const View*, N>& views, double p) {
  const auto with_parameter = [loop, &p](char* const* operands, const int64_t* steps, int64_t count) {
    std::array<char*, N + 1> all;
    std::copy_n(operands, N, all.begin());
    all[N] = reinterpret_cast<char*>(&p);
    loop(all.data(), steps, count);
  };
  run<N>(with_parameter, views);
}

/// An operand of a half type and a number of float32, in either order: the operand is widened a block at a time, so
/// that the result alone is rounded.
void binary_beside_number(Binary op, const View& out, const View& x, const View& y) {
  if (out.numel == 0) return;
  const bool number_first = x.dtype == kFloat32;
  const View &number = number_first ? x : y, &operand = number_first ? y : x;
  const Loop loop = served(loops().binary, op, kFloat32);
  detail::visit(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!is_half_type<T>) {
      detail::raise<DTypeError>(name_of(op), ": no cpu kernel for a float32 number beside ", out.dtype);
    } else {
      share_rows<2>(nest_of<2>({&out, &operand}), [&](char* const* at, const int64_t* steps, int64_t count) {
        in_blocks_of_float<T, 1>(at, steps, count, [&](float(*blocks)[kHalfBlock], int64_t length) {
          constexpr int64_t kUnit = sizeof(float);
          char *const block = reinterpret_cast<char*>(blocks[0]), *const value = number.as<char>();
          char* const operands[] = {block, number_first ? value : block, number_first ? block : value};
          const int64_t moves[] = {kUnit, number_first ? 0 : kUnit, number_first ? kUnit : 0};
          loop(operands, moves, length);
        });
      });
    }
  });
}

}  // namespace

void unary(Unary op, const View& out, const View& x, double p) {
  const Loop loop = served(loops().unary, op, x.dtype);
  if (has_parameter(op)) [[unlikely]]
    return run_with_parameter<2>(loop, {&out, &x}, p);
  run<2>(loop, {&out, &x});
}
void unary_gradient(Unary op, const View& out, const View& g, const View& kept, double p) {
  took(Path::fused_gradient, out.numel);
  const Loop loop = served(loops().unary_gradient, op, out.dtype);
  if (has_parameter(op)) [[unlikely]]
    return run_with_parameter<3>(loop, {&out, &g, &kept}, p);
  run<3>(loop, {&out, &g, &kept});
}
void predicate(Predicate op, const View& out, const View& x) {
  run<2>(served(loops().predicate, op, x.dtype), {&out, &x});
}
void binary(Binary op, const View& out, const View& x, const View& y) {
  if (x.dtype != y.dtype) [[unlikely]]
    return binary_beside_number(op, out, x, y);
  run<3>(served(loops().binary, op, x.dtype), {&out, &x, &y});
}
void binary_gradient(Binary op, int operand, const View& out, const View& g, const View& x, const View& y) {
  took(Path::fused_gradient, out.numel);
  run<4>(served(loops().binary_gradient[static_cast<std::size_t>(operand)], op, out.dtype), {&out, &g, &x, &y});
}
void compare(Compare op, const View& out, const View& x, const View& y) {
  run<3>(served(loops().compare, op, x.dtype), {&out, &x, &y});
}

}  // namespace tendril::cpu
