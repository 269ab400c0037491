// What reads and writes by index, in float32 against itself in float64 (against_float64.h).
#include "tests/tensor/against_float64.h"

BOOST_AUTO_TEST_SUITE(float32_index)

using namespace tendril;
using namespace tendril::testing;

namespace {

using raw::view_of;

const Kernels& table = *kernels(kCPU);

/// What is read (or written to), what is written (or read), and the dimension along which they may differ.
struct Shapes {
  explicit Shapes(int round) : x{roll(1, 9), roll(1, 9), roll(1, 9)}, dim(static_cast<int>(roll(0, 2))) {
    if (round % 2 == 0) x[static_cast<int>(roll(0, 2))] = roll(1, round % 4 ? 300 : 3000);
    chosen = x;
    chosen[dim] = roll(1, round % 3 ? 20 : 700);
  }
  Dims x, chosen;
  int dim;
};

}  // namespace

BOOST_AUTO_TEST_CASE(elements_and_slices_are_read_alike) {
  for (int round = 0; round < 24; ++round) {
    const Shapes s(round);
    check_anyhow("gather", {noise(s.x), places(s.chosen, s.x[s.dim])}, {{s.chosen}}, 0,
                 [&](const Tensors& out, const Tensors& given) {
                   table.gather(view_of(out[0]), view_of(given[0]), s.dim, view_of(given[1]), IndexUse::gather);
                 });
    check_anyhow("index_select", {noise(s.x), places({s.chosen[s.dim]}, s.x[s.dim])}, {{s.chosen}}, 0,
                 [&](const Tensors& out, const Tensors& given) {
                   table.index_select(view_of(out[0]), view_of(given[0]), s.dim, view_of(given[1]),
                                      IndexUse::index_select);
                 });
  }
}

BOOST_AUTO_TEST_CASE(sums_by_index_are) {
  for (int round = 0; round < 24; ++round) {
    const Shapes s(round);
    // In the worst case all terms are added to one element, one after the other, and cancel.
    const std::vector<Result> sums{{s.x, false, std::sqrt(static_cast<double>(s.chosen[s.dim]))}};
    check_anyhow("scatter_add", {noise(s.x), places(s.chosen, s.x[s.dim]), noise(s.chosen)}, sums, 1e-5,
                 [&](const Tensors& out, const Tensors& given) {
                   raw::copy_(out[0], given[0]);
                   table.scatter_add(view_of(out[0]), s.dim, view_of(given[1]), view_of(given[2]),
                                     IndexUse::scatter_add);
                 });
    check_anyhow("index_add", {noise(s.x), places({s.chosen[s.dim]}, s.x[s.dim]), noise(s.chosen)}, sums, 1e-5,
                 [&](const Tensors& out, const Tensors& given) {
                   raw::copy_(out[0], given[0]);
                   table.index_add(view_of(out[0]), s.dim, view_of(given[1]), view_of(given[2]), IndexUse::index_add);
                 });
  }
}

BOOST_AUTO_TEST_CASE(an_embedding_and_its_gradient_are_also_where_threads_share_them) {
  for (int round = 0; round < 12; ++round) {
    const int64_t rows = roll(1, 40), width = roll(1, 300), number = roll(1, 900);
    const Dims weight{rows, width}, chosen{number, width};
    const double terms = std::sqrt(static_cast<double>(number));  // if all choose one row
    check("embedding", {noise(weight), places({number}, rows), noise(chosen)}, {{chosen}, {weight, false, terms}}, 1e-5,
          [&](const Tensors& out, const Tensors& given) {
            const View index = view_of(given[1]);
            table.index_select(view_of(out[0]), view_of(given[0]), 0, index, IndexUse::embedding);
            raw::fill_(out[1], 0);
            table.index_add(view_of(out[1]), 0, index, view_of(given[2]), IndexUse::embedding);
          });
  }
}

BOOST_AUTO_TEST_CASE(what_is_scattered_to_every_place_leaves_none_unwritten) {
  for (int round = 0; round < 16; ++round) {
    const Shapes s(round);
    const Dims lines{s.x[0], s.x[1], s.x[2]};
    const Tensor order = raw::full(lines, 0, kInt64);  // of each line all places, in any order
    table.sort_places(view_of(order), view_of(noise(lines)), false);
    check_anyhow("scatter", {order, noise(lines)}, {{lines}}, 0, [&](const Tensors& out, const Tensors& given) {
      table.scatter(view_of(out[0]), 2, view_of(given[0]), view_of(given[1]), IndexUse::scatter);
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
