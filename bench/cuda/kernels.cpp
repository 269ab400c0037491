// Large tensors against the device's copy bandwidth, products against cuBLAS called by hand, and what the host pays for
// a small operation. bench/cuda.sh runs it beside bench/pytorch/gpu.py and makes a table.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "bench/cuda/launch.h"
#include "bench/cuda/timing.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/matmul.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/autograd/ops/softmax.h"
#include "tendril/tensor/creation.h"

using namespace tendril;

namespace {

constexpr Device kGPU{DeviceType::cuda, 0};

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::cerr << "error: " << call << ": " << cublasGetStatusString(status) << '\n';
  std::exit(1);
}

void bandwidth(int64_t rows, int64_t columns) {
  const Dims sizes = {rows, columns};
  const double elements = static_cast<double>(rows * columns);
  const Tensor x = randn(sizes, {.device = kGPU}), y = randn(sizes, {.device = kGPU}), out = empty_like(x);
  const auto bytes = static_cast<std::size_t>(elements) * 4;
  const auto run = [](const char* name, double moved, const std::function<void()>& work) {
    bench::report("bandwidth", name, bench::median_ms(work), moved);
  };
  run("copy (cudaMemcpyAsync)", 8 * elements,
      [&] { cuda::copy_async(out.raw_data(), kGPU, x.raw_data(), kGPU, bytes); });
  run("add", 12 * elements, [&] { x + y; });
  run("add a number", 8 * elements, [&] { x + 1.5; });
  run("add a row", 8 * elements, [row = randn({columns}, {.device = kGPU}), &x] { x + row; });
  run("exp", 8 * elements, [&] { x.exp(); });
  run("gelu", 8 * elements, [&] { x.gelu(); });
  run("relu in place", 8 * elements, [z = x.clone()]() mutable { z.relu_(); });
  run("where", 13 * elements, [mask = x.gt(0), &x, &y] { where(mask, x, y); });
  run("float32 to bfloat16", 6 * elements, [&] { x.to(kBFloat16); });
  run("add of bfloat16", 6 * elements, [a = x.to(kBFloat16), b = y.to(kBFloat16)] { a + b; });
  run("transposed copy", 8 * elements, [&] { x.t().contiguous(); });
  run("fill", 4 * elements, [z = x.clone()]() mutable { z.zero_(); });
  run("sum", 4 * elements, [&] { x.sum(); });
  run("sum of rows", 4 * elements, [&] { x.sum({1}); });
  run("sum of columns", 4 * elements, [&] { x.sum({0}); });
  run("largest of rows", 4 * elements, [&] { x.max(1); });
  run("softmax of rows", 8 * elements, [&] { x.softmax(1); });
  run("log_softmax of rows", 8 * elements, [&] { x.log_softmax(1); });
  const Tensor wide = x.view({rows * columns / 32768, 32768});
  run("softmax of long rows", 8 * elements, [&] { wide.softmax(1); });
  run("normal random numbers", 4 * elements, [&] { randn(sizes, {.device = kGPU}); });
}

/// Row-major c = a b is column-major c^T = b^T a^T.
void matmul(int64_t n, DType dtype, bool tf32) {
  const Tensor a = randn({n, n}, {.device = kGPU}).to(dtype), b = randn({n, n}, {.device = kGPU}).to(dtype);
  const std::string name = std::to_string(n) + " " + (tf32 ? "TF32" : name_of(dtype));
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  cuda::set_matmul_tf32(tf32);
  bench::report("matmul", name, bench::median_ms([&] { a.matmul(b); }, 5), flops);
  cuda::set_matmul_tf32(false);

  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "cublasCreate");
  const Tensor workspace = empty({64 << 20}, {.dtype = kUInt8, .device = kGPU});
  check(cublasSetWorkspace(handle, workspace.raw_data(), 32 << 20), "cublasSetWorkspace");
  const Tensor c = empty_like(a);
  const float one = 1, zero = 0;
  const cudaDataType_t type = dtype == kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
  const int size = static_cast<int>(n);
  const auto by_hand = [&] {
    check(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, b.raw_data(), type, size, a.raw_data(),
                       type, size, &zero, c.raw_data(), type, size,
                       tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  };
  bench::report("cublas", name, bench::median_ms(by_hand, 5), flops);
  check(cublasDestroy(handle), "cublasDestroy");
}

/// Microseconds that the calling thread spends on one operation of 4 elements, the device keeping up or not.
void host_cost() {
  const Tensor x = ones({4}, {.device = kGPU}), y = ones({4}, {.device = kGPU});
  const Tensor tracked = ones({4}, {.device = kGPU, .requires_grad = true});
  const auto cost = [](const char* name, const std::function<void()>& work) {
    std::vector<double> times;
    for (int sample = 0; sample < 21; ++sample) {
      cuda::synchronize();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 500; ++i) work();  // fewer than the launch queue holds
      const std::chrono::duration<double, std::micro> passed = std::chrono::steady_clock::now() - start;
      times.push_back(passed.count() / 500);
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    bench::report("host", name, times[10], 0);
  };
  cost("an empty kernel (the limit)", bench::launch_nothing);
  cost("add", [&] { x + y; });
  cost("add, tracked", [&] { tracked + y; });
  cost("add in place", [z = x.clone(), &y]() mutable { z.add_(y); });
  cost("sum", [&] { x.sum(); });
}

}  // namespace

int main() {
  try {
    if (!cuda::is_available()) {
      std::cerr << "no CUDA device: " << cuda::why_unavailable() << '\n';
      return 0;
    }
    std::printf("device\t%s\t0\t0\n", cuda::device_name().c_str());
    const autograd::NoGrad no_grad;
    bandwidth(65536, 1024);
    for (const int64_t n : {1024, 4096, 8192}) {
      matmul(n, kFloat32, false);
      matmul(n, kFloat32, true);
      matmul(n, kBFloat16, false);
    }
    const autograd::EnableGrad grad;
    host_cost();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}
