// Compares MPI's collectives with the ring's, under mpirun: mpi_collectives agree | differ | alone (tests/launchers)
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tendril/autograd/ops/pointwise.h"
#include "tendril/dist/collectives/process_group.h"
#include "tendril/rpc/group.h"
#include "tendril/tensor/creation.h"

namespace rpc = tendril::rpc;
namespace dist = tendril::dist;
using namespace tendril;

namespace mpi_collectives {

int number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

void expect(bool right, const std::string& what) {
  if (!right) throw std::runtime_error("wrong: " + what);
}

/// Whole numbers, so that sums have the same bits in any order.
Tensor mine(DType dtype, int rank, int64_t rows) {
  return (arange(rows * 3).reshape({rows, 3}) * (rank + 1) + rank).to(dtype);
}

void agree(dist::ProcessGroup& mpi, dist::ProcessGroup& ring) {
  expect(mpi.backend() == dist::Backend::mpi && ring.backend() == dist::Backend::ring, "backend");
  const int rank = mpi.rank(), size = mpi.size();
  int compared = 0;
  const auto same = [&](const Tensor& a, const Tensor& b, const std::string& what) {
    expect(a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.to_vector<double>() == b.to_vector<double>(), what);
    ++compared;
  };
  for (const DType dtype : {kFloat32, kFloat64, kInt64, kInt32, kUInt8, kFloat16}) {
    for (const dist::ReduceOp op :
         {dist::ReduceOp::sum, dist::ReduceOp::max, dist::ReduceOp::min, dist::ReduceOp::average}) {
      if (op == dist::ReduceOp::average && !is_floating(dtype)) continue;
      for (const bool by_rank : {false, true}) {
        Tensor a = mine(dtype, rank, 2 * size), b = a.clone();
        mpi.all_reduce(a, op, {.deterministic = by_rank});
        ring.all_reduce(b, op, {.deterministic = by_rank});
        same(a, b, "all_reduce");
        same(mpi.reduce_scatter(mine(dtype, rank, 2 * size), op, {.deterministic = by_rank}),
             ring.reduce_scatter(mine(dtype, rank, 2 * size), op, {.deterministic = by_rank}), "reduce_scatter");
      }
    }
    const auto a = mpi.all_gather(mine(dtype, rank, 1)), b = ring.all_gather(mine(dtype, rank, 1));
    for (std::size_t i = 0; i < b.size(); ++i) same(a.at(i), b[i], "all_gather");
    for (int root = 0; root < size; ++root) {
      const Tensor x = mine(dtype, rank, 4);
      mpi.broadcast(x, root);
      same(x, mine(dtype, root, 4), "broadcast");
    }
  }
  const Tensor large = full({3'000'000}, rank + 1.0), strided = zeros({4, 6}).transpose(0, 1);
  const auto first = mpi.all_reduce_async(large), second = mpi.all_reduce_async(strided + 1);
  first.wait();
  second.wait();
  same(large, full({3'000'000}, size * (size + 1) / 2.0), "a large tensor");
  mpi.all_reduce(zeros({0}));  // nothing to add
  mpi.barrier();
  std::printf("rank %d of %d: MPI and the ring agree %d times\n", rank, size, compared);
}

void run(const std::string& mode) {
  const int rank = number("OMPI_COMM_WORLD_RANK", 0), size = number("OMPI_COMM_WORLD_SIZE", 1);
  std::vector<std::string> names;
  for (int r = 0; r < size; ++r) names.push_back(std::string("w").append(std::to_string(r)));
  rpc::init_rpc(names[static_cast<std::size_t>(rank)]);
  try {
    dist::ProcessGroup mpi(names, {.tag = "mpi", .backend = dist::Backend::mpi});
    if (mode == "agree") {
      dist::ProcessGroup ring(names);
      agree(mpi, ring);
    } else {
      mpi.all_reduce(zeros({rank == 0 ? 2 : 3}));
    }
  } catch (const dist::CollectiveError& error) {
    if (mode == "agree") throw;
    std::printf("rank %d: %s\n", rank, error.what());
  }
  rpc::shutdown();
}

}  // namespace mpi_collectives

int main(int argc, char** argv) {
  try {
    mpi_collectives::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_collectives: %s\n", error.what());
    return 1;
  }
}
