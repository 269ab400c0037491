#pragma once

#include "tendril/tensor/kernels.h"

/// The functions behind `cuda::table`, each in the .cu (or .cpp) file of its family; kernels.h says what they do. They
/// run on the calling thread's current device and stream, and do not wait.
namespace tendril::cuda {

extern const Kernels table;

void unary(Unary op, const View& out, const View& x, double p);
void unary_gradient(Unary op, const View& out, const View& g, const View& kept, double p);
void binary_gradient(Binary op, int operand, const View& out, const View& g, const View& x, const View& y);
void predicate(Predicate op, const View& out, const View& x);
void binary(Binary op, const View& out, const View& x, const View& y);
void compare(Compare op, const View& out, const View& x, const View& y);
void add_scaled(const View& out, const View& x, const View& y, Scalar alpha);
void where(const View& out, const View& mask, const View& x, const View& y);
void clamp(const View& out, const View& x, const Scalar* low, const Scalar* high);

void copy(const View& out, const View& x);
void fill(const View& out, Scalar value);
void arange(const View& out, Scalar start, Scalar step);

void reduce(Reduction op, const View& out, const View& x);
void extremum(bool largest, const View* values, const View* indices, const View& x, int dim);
void cumsum(const View& out, const View& x, int dim);
void softmax(const View& out, const View& x, int dim);
void log_softmax(const View& out, const View& x, int dim);
void log_sum_exp(const View& largest, const View& log_sum, const View& x, int dim);
void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share);

void matmul(const View& out, const View& a, const View& b);
void matmul_integers(const View& out, const View& a, const View& b);  ///< its part for integers
void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
               const View& h);
void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& tanh_c);
int64_t lstm_layer_reserve(LstmLayer& layer, bool training);
void lstm_layer(const LstmLayer& layer, const View& output, const View& c_n, void* reserve);
void lstm_layer_backward(const LstmLayer& layer, const View& output, void* reserve,
                         const LstmLayerGradients& gradients);

void max_pool2d(const View& out, const View& indices, const View& x, const PoolGeometry& geometry);
void mean_pool2d(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w);
void mean_pool2d_transpose(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w);
void batch_norm(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
                double eps, bool batch);
void batch_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View& mean, const View& var, const View* weight, double eps, bool batch);
void batch_norm_relu(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                     const View* bias, const View* residual, double eps, bool batch);
void batch_norm_relu_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                              const View& g, const View& out, const View& x, const View& mean, const View& var,
                              const View* weight, double eps, bool batch);

void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& geometry);
void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry);
void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry);

void uniform(const View& out, double low, double high, uint64_t seed, uint64_t offset);
void normal(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset);
void bernoulli(const View& out, double p, uint64_t seed, uint64_t offset);
void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t offset);
void randint(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset);
void gather(const View& out, const View& x, int dim, const View& index, IndexUse use);
void scatter_add(const View& out, int dim, const View& index, const View& source, IndexUse use);
void scatter(const View& out, int dim, const View& index, const View& source, IndexUse use);
void index_select(const View& out, const View& x, int dim, const View& index, IndexUse use);
void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use);

void optimizer_step(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule);

}  // namespace tendril::cuda
