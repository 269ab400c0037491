#include "tendril/tensor/cpu/onednn.h"

#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>
#include <atomic>

#include "tendril/tensor/error.h"
#include "tendril/tensor/threads.h"

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

/// While it lives, OpenMP gives regions that this thread starts num_threads() threads, as oneDNN starts them without
/// saying how many. Then what the user set counts again. The OpenMP runtime is the one that oneDNN was linked with,
/// which need not be one of ours: found by name.
class ThreadsForOneDnn {
 public:
  ThreadsForOneDnn() {
    if (!set_threads() || !max_threads()) return;
    before_ = max_threads()();
    if (before_ != num_threads()) set_threads()(num_threads());
  }
  ~ThreadsForOneDnn() {
    if (before_ > 0) set_threads()(before_);
  }
  ThreadsForOneDnn(const ThreadsForOneDnn&) = delete;
  ThreadsForOneDnn& operator=(const ThreadsForOneDnn&) = delete;

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

  int before_ = 0;
};

std::atomic<uint64_t> products{0};

}  // namespace

uint64_t sgemm_count() noexcept { return products.load(std::memory_order_relaxed); }

bool available() noexcept { return true; }

bool sgemm(const Gemm& g) {
  Operand a, b, out;
  if (!describe(g.m, g.k, g.a_row, g.a_column, a) || !describe(g.k, g.n, g.b_row, g.b_column, b) ||
      !describe(g.m, g.n, g.out_row, g.out_column, out) || out.transposed == 'T') {
    return false;
  }
  const ThreadsForOneDnn threads;
  const auto* x = static_cast<const float*>(g.a);
  const auto* y = static_cast<const float*>(g.b);
  const dnnl_status_t status = dnnl_sgemm(a.transposed, b.transposed, g.m, g.n, g.k, 1.0f, x, a.stride, y, b.stride,
                                          g.accumulate ? 1.0f : 0.0f, static_cast<float*>(g.out), out.stride);
  TENDRIL_CHECK(status == dnnl_success, "matmul: oneDNN failed with status ", static_cast<int>(status));
  products.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace tendril::cpu::onednn
