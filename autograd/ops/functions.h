#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// The methods of Tensor as functions, for those who write `sum(x, 0)` rather than `x.sum(0)`: arguments, results and
/// errors are the methods'.
namespace tendril {

inline Tensor sum(const Tensor& x) { return x.sum(); }
inline Tensor sum(const Tensor& x, const Dims& dims, Flag keepdim = false) { return x.sum(dims, keepdim); }
inline Tensor mean(const Tensor& x) { return x.mean(); }
inline Tensor mean(const Tensor& x, const Dims& dims, Flag keepdim = false) { return x.mean(dims, keepdim); }
inline Tensor var(const Tensor& x, const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false) {
  return x.var(dims, unbiased, keepdim);
}
inline Tensor std(const Tensor& x, const Dims& dims = {}, Flag unbiased = true, Flag keepdim = false) {
  return x.std(dims, unbiased, keepdim);
}
inline Tensor prod(const Tensor& x) { return x.prod(); }
inline Tensor prod(const Tensor& x, int64_t dim, Flag keepdim = false) { return x.prod(dim, keepdim); }
inline Tensor norm(const Tensor& x, double p = 2) { return x.norm(p); }
inline Tensor norm(const Tensor& x, double p, const Dims& dims, Flag keepdim = false) {
  return x.norm(p, dims, keepdim);
}
inline Tensor max(const Tensor& x) { return x.max(); }
inline std::tuple<Tensor, Tensor> max(const Tensor& x, int64_t dim, Flag keepdim = false) {
  return x.max(dim, keepdim);
}
inline Tensor max(const Tensor& x, const Tensor& y) { return x.maximum(y); }
inline Tensor min(const Tensor& x) { return x.min(); }
inline std::tuple<Tensor, Tensor> min(const Tensor& x, int64_t dim, Flag keepdim = false) {
  return x.min(dim, keepdim);
}
inline Tensor min(const Tensor& x, const Tensor& y) { return x.minimum(y); }
inline Tensor amax(const Tensor& x, const Dims& dims = {}, Flag keepdim = false) { return x.amax(dims, keepdim); }
inline Tensor amin(const Tensor& x, const Dims& dims = {}, Flag keepdim = false) { return x.amin(dims, keepdim); }
inline Tensor argmax(const Tensor& x) { return x.argmax(); }
inline Tensor argmax(const Tensor& x, int64_t dim, Flag keepdim = false) { return x.argmax(dim, keepdim); }
inline Tensor argmin(const Tensor& x) { return x.argmin(); }
inline Tensor argmin(const Tensor& x, int64_t dim, Flag keepdim = false) { return x.argmin(dim, keepdim); }
inline Tensor all(const Tensor& x) { return x.all(); }
inline Tensor all(const Tensor& x, const Dims& dims, Flag keepdim = false) { return x.all(dims, keepdim); }
inline Tensor any(const Tensor& x) { return x.any(); }
inline Tensor any(const Tensor& x, const Dims& dims, Flag keepdim = false) { return x.any(dims, keepdim); }
inline Tensor count_nonzero(const Tensor& x, const Dims& dims = {}) { return x.count_nonzero(dims); }

inline Tensor reshape(const Tensor& x, const Dims& sizes) { return x.reshape(sizes); }
inline Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1) {
  return x.flatten(start_dim, end_dim);
}
inline Tensor unflatten(const Tensor& x, int64_t dim, const Dims& sizes) { return x.unflatten(dim, sizes); }
inline Tensor broadcast_to(const Tensor& x, const Dims& sizes) { return x.expand(sizes); }
inline Tensor t(const Tensor& x) { return x.t(); }
inline Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) { return x.transpose(dim0, dim1); }
inline Tensor permute(const Tensor& x, const Dims& dims) { return x.permute(dims); }
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, int64_t dim) { return x.squeeze(dim); }
inline Tensor unsqueeze(const Tensor& x, int64_t dim) { return x.unsqueeze(dim); }
inline Tensor select(const Tensor& x, int64_t dim, int64_t index) { return x.select(dim, index); }
inline Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  return x.narrow(dim, start, length);
}
inline std::vector<Tensor> split(const Tensor& x, int64_t split_size, int64_t dim = 0) {
  return x.split(split_size, dim);
}
inline std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0) {
  return x.split(sizes, dim);
}
inline std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0) { return x.chunk(chunks, dim); }
inline std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0) { return x.unbind(dim); }
inline Tensor clone(const Tensor& x) { return x.clone(); }
inline Tensor detach(const Tensor& x) { return x.detach(); }
inline int64_t numel(const Tensor& x) { return x.numel(); }

inline Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) { return x.gather(dim, index); }
inline Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return x.scatter(dim, index, source);
}
inline Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  return x.scatter(dim, index, value);
}
inline Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return x.scatter_add(dim, index, source);
}
inline Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) { return x.index_select(dim, index); }
inline Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return x.index_add(dim, index, source);
}
inline Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Scalar value) {
  return x.index_fill(dim, index, value);
}
inline Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  return x.index_copy(dim, index, source);
}
/// x kept at `low` or above.
inline Tensor clamp_min(const Tensor& x, Scalar low) { return x.clamp_min(low); }
/// x kept at `high` or below.
inline Tensor clamp_max(const Tensor& x, Scalar high) { return x.clamp_max(high); }

}  // namespace tendril

TENDRIL_API_END
