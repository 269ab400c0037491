#include "tendril/data/collate.h"

#include <cstring>

#include "tendril/data/dataset.h"
#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/error.h"
#include "tendril/tensor/raw.h"

namespace tendril::data {

namespace detail {

Tensor row_of(const Tensor& x, int64_t index) { return raw::select(x, 0, index); }

Tensor stack(const std::vector<Tensor>& examples) {
  TENDRIL_CHECK(!examples.empty(), "collate: examples: got none");
  for (const Tensor& example : examples) tendril::detail::check_defined(example, "collate", "an example");
  const Tensor& first = examples[0];
  for (std::size_t i = 1; i < examples.size(); ++i) {
    const Tensor& x = examples[i];
    TENDRIL_CHECK_AS(ShapeError, x.sizes() == first.sizes(), "collate: example ", i, " of the batch has shape ",
                     x.sizes(), ", expected ", first.sizes(), " as example 0");
    TENDRIL_CHECK_AS(DTypeError, x.dtype() == first.dtype(), "collate: example ", i, " of the batch is ", x.dtype(),
                     ", expected ", first.dtype(), " as example 0");
    TENDRIL_CHECK(x.device() == first.device(), "collate: example ", i, " of the batch is on ", x.device(),
                  ", expected ", first.device(), " as example 0");
  }
  Dims sizes = first.sizes();
  sizes.insert(0, static_cast<int64_t>(examples.size()));
  Tensor batch = raw::empty(sizes, first.dtype(), first.device());
  const std::size_t bytes = static_cast<std::size_t>(first.numel()) * size_of(first.dtype());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Tensor& x = examples[i];
    if (x.is_contiguous() && x.device().is_cpu()) {
      if (bytes > 0) std::memcpy(static_cast<std::byte*>(batch.raw_data()) + i * bytes, x.raw_data(), bytes);
    } else {
      raw::copy_(raw::select(batch, 0, static_cast<int64_t>(i)), x);
    }
  }
  return batch;
}

namespace {
template <class T>
Tensor numbers(const std::vector<T>& values) {
  return raw::from_data(values, {static_cast<int64_t>(values.size())});
}
}  // namespace
Tensor vector_of(const std::vector<int64_t>& values) { return numbers(values); }
Tensor vector_of(const std::vector<double>& values) { return numbers(values); }
Tensor vector_of(const std::vector<float>& values) { return numbers(values); }
Tensor vector_of(const std::vector<bool>& values) { return numbers(values); }

}  // namespace detail

void pin(Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || !cuda::is_available()) return;
  Tensor pinned = cuda::pinned_empty(tensor.sizes(), tensor.dtype());
  raw::copy_(pinned, tensor);
  tensor = std::move(pinned);
}

}  // namespace tendril::data
