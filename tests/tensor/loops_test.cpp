#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tendril/tensor/cpu/level/level.h"
#include "tendril/tensor/raw.h"

using namespace tendril;

namespace {

Tensor noise(DType dtype, double low, double high) {
  Generator generator(3);
  const Tensor x = raw::empty({1003}, kFloat64);
  raw::uniform_(x, low, high, generator);
  return raw::cast(x, dtype);
}

/// Runs one level's loop over `count` elements.
std::vector<char> result_of(cpu::Loop loop, const Tensor& x, std::size_t out_element) {
  std::vector<char> out(static_cast<std::size_t>(x.numel()) * out_element);
  char* pointers[] = {out.data(), static_cast<char*>(x.raw_data()), static_cast<char*>(x.raw_data())};
  const auto element = static_cast<int64_t>(size_of(x.dtype()));
  const int64_t steps[] = {static_cast<int64_t>(out_element), element, element};
  loop(pointers, steps, x.numel());
  return out;
}

template <class Op>
void compare_levels(const cpu::ByOp<Op, cpu::Loop>& plain, const cpu::ByOp<Op, cpu::Loop>& newer, bool logical) {
  for (std::size_t op = 0; op < plain.size(); ++op) {
    for (std::size_t d = 0; d < kNumDTypes; ++d) {
      const auto dtype = static_cast<DType>(d);
      BOOST_TEST((plain[op][d] == nullptr) == (newer[op][d] == nullptr));
      if (!plain[op][d]) continue;
      const Tensor x = noise(dtype, dtype == kUInt8 ? 0 : -3, 3);
      const std::size_t element = logical ? 1 : size_of(dtype);
      const bool same = result_of(plain[op][d], x, element) == result_of(newer[op][d], x, element);
      BOOST_TEST(same, name_of(static_cast<Op>(op)) << " of " << dtype);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loops)

BOOST_AUTO_TEST_CASE(every_level_gives_the_same_bits) {
  const auto levels = cpu::all_loops();
  BOOST_TEST(levels.back() == cpu::best_loops);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    BOOST_TEST_CONTEXT(levels[i]->name) {
      compare_levels<Unary>(levels[0]->unary, levels[i]->unary, false);
      compare_levels<Predicate>(levels[0]->predicate, levels[i]->predicate, true);
      compare_levels<Binary>(levels[0]->binary, levels[i]->binary, false);
      compare_levels<Compare>(levels[0]->compare, levels[i]->compare, true);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_level_multiplies) {
  const Tensor a = raw::view(noise(kFloat32, -1, 1), {17, 59}), b = raw::transpose(a, 0, 1);
  for (const cpu::Loops* level : cpu::all_loops()) {
    const Tensor out = raw::empty({17, 17}), expected = raw::matmul(raw::cast(a, kFloat64), raw::cast(b, kFloat64));
    level->gemm[0]({17, 17, 59, a.raw_data(), 59, 1, b.raw_data(), 1, 59, out.raw_data(), 17, 1});
    const Tensor error = raw::unary(Unary::abs, raw::binary(Binary::sub, raw::cast(out, kFloat64), expected));
    BOOST_TEST(raw::reduce(Reduction::max, error).item<double>() < 1e-5, level->name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
