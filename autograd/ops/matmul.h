#pragma once

#include "tendril/tensor/export.h"
#include "tendril/tensor/tensor.h"

TENDRIL_API_BEGIN

/// Matrix products. Operands have one floating or integer dtype (DTypeError) and fitting sizes (ShapeError).
namespace tendril {

/// PyTorch's: two vectors give their dot product; a vector is a row on the left and a column on the right and leaves no
/// dimension behind; leading dimensions of larger tensors are a batch, and broadcast.
inline Tensor matmul(const Tensor& a, const Tensor& b) { return a.matmul(b); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return a.mm(b); }    ///< [m, k] by [k, n]
inline Tensor bmm(const Tensor& a, const Tensor& b) { return a.bmm(b); }  ///< [batch, m, k] by [batch, k, n]
inline Tensor dot(const Tensor& a, const Tensor& b) { return a.dot(b); }  ///< [n] by [n]

/// beta * c + alpha * a b, for a [m, k], b [k, n] and c that broadcasts to [m, n], all of one dtype, which is the
/// result's. What is multiplied by 0 is left out: a NaN in it is not seen. DTypeError for fractions beside integers.
Tensor addmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

/// The same of batches: a [batch, m, k], b [batch, k, n], c broadcasts to [batch, m, n].
Tensor baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);

/// x weight^T + bias [..., out], for x [..., in], weight [out, in], and bias [out] or undefined. A weight [in], with a
/// bias [] or undefined, gives [...].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// relu(linear(...)) and gelu_tanh(linear(...)) of one floating dtype (DTypeError), else as linear; twice
/// differentiable. On the CPU they are those two to the last bit, with no tensor between them (gelu_tanh: where nothing
/// is recorded). On CUDA both are one call of cuBLASLt's where it has it, which rounds a half type once, and
/// - does not say what its ReLU makes of NaN, which may become 0, as in PyTorch's _addmm_activation. Where NaN must be
///   seen, call linear and relu;
/// - does not say how exact its GELU is in float32.
Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// As linear_relu, with gelu_tanh in relu's place.
Tensor linear_gelu_tanh(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace tendril

TENDRIL_API_END
