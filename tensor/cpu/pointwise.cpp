#include "tendril/tensor/cpu/cpu.h"
#include "tendril/tensor/cpu/loops.h"

namespace tendril::cpu {
namespace {

template <class Op, class F>
F served(const ByOp<Op, F>& table, Op op, DType dtype) {
  const F loop = table[static_cast<std::size_t>(op)][static_cast<std::size_t>(dtype)];
  TENDRIL_CHECK_AS(DTypeError, loop, name_of(op), ": no cpu kernel for ", dtype);
  return loop;
}

}  // namespace

void unary(Unary op, const View& out, const View& x) { run<2>(served(loops().unary, op, x.dtype), {&out, &x}); }
void predicate(Predicate op, const View& out, const View& x) {
  run<2>(served(loops().predicate, op, x.dtype), {&out, &x});
}
void binary(Binary op, const View& out, const View& x, const View& y) {
  run<3>(served(loops().binary, op, x.dtype), {&out, &x, &y});
}
void compare(Compare op, const View& out, const View& x, const View& y) {
  run<3>(served(loops().compare, op, x.dtype), {&out, &x, &y});
}

}  // namespace tendril::cpu
