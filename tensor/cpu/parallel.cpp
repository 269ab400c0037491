#include "tendril/tensor/cpu/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tendril::cpu {

void run_parts(int64_t parts, int64_t count, Part part, const void* body) {
#ifdef _OPENMP
  if (!omp_in_parallel()) {
#pragma omp parallel for num_threads(static_cast <int>(parts)) schedule(static, 1)
    for (int64_t i = 0; i < parts; ++i) part(body, count * i / parts, count * (i + 1) / parts);
    return;
  }
#endif
  (void)parts;
  part(body, 0, count);
}

}  // namespace tendril::cpu
