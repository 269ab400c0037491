#pragma once

#include "tendril/tensor/kernels.h"

/// The CPU's kernels; contracts in tensor/kernels.h.
namespace tendril::cpu {

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
void scan(Scan op, const View& out, const View* indices, const View& x, int dim);
void recurrence(const View& out, const View& a, const View& b, int dim);
void softmax(const View& out, const View& x, int dim);
void log_softmax(const View& out, const View& x, int dim);
void log_sum_exp(const View& largest, const View& log_sum, const View& x, int dim);
void cross_entropy_backward(const View& dx, const View& x, int dim, const View& largest, const View& log_sum,
                            const View& index, const View& share);
void matmul(const View& out, const View& a, const View& b);
void lstm_cell(const View& gates, const View& x_gates, const View& c, const View& next_c, const View& tanh_c,
               const View& h);
void lstm_cell_backward(const View& d_gates, const View& d_c, const View& d_h, const View* d_out, const View& gates,
                        const View& c, const View& tanh_c);
bool lstm_steps(const LstmSteps& steps, const View& gates, const View& cells, const View& tanh_c, const View& output);
bool lstm_steps_backward(const LstmSteps& steps, const View& d_gates, const View& d_c, const View& d_h,
                         const View* d_output, const View& gates, const View& cells, const View& tanh_c, bool to_h0);

void conv2d(const View& out, const View& x, const View& weight, const ConvGeometry& geometry);
void conv2d_relu(const View& out, const View& x, const View& weight, const View* bias, bool relu,
                 const ConvGeometry& geometry, detail::PreparedForms* prepared);
void conv2d_data(const View& x, const View& out, const View& weight, const ConvGeometry& geometry,
                 detail::PreparedForms* prepared);
void conv2d_filter(const View& weight, const View& x, const View& out, const ConvGeometry& geometry);
void max_pool2d(const View& out, const View& indices, const View& x, const PoolGeometry& geometry);
void max_pool2d_backward(const View& dx, const View& g, const View& indices, const PoolGeometry& geometry);
void mean_pool2d(const View& out, const View& x, const PoolAxis& h, const PoolAxis& w);
void mean_pool2d_transpose(const View& x, const View& out, const PoolAxis& h, const PoolAxis& w);
void batch_norm(const View& out, const View& mean, const View& var, const View& x, const View* weight, const View* bias,
                double eps, bool batch, const RunningStatistics& running);
void batch_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View& mean, const View& var, const View* weight, double eps, bool batch);
void batch_norm_relu(const View& out, const View& mean, const View& var, const View& x, const View* weight,
                     const View* bias, const View* residual, double eps, bool batch, const RunningStatistics& running);
void batch_norm_relu_backward(const View* dx, const View* dweight, const View* dbias, const View* dresidual,
                              const View& g, const View& out, const View& x, const View& mean, const View& var,
                              const View* weight, double eps, bool batch);

void layer_norm(const View& out, const View* mean, const View& rstd, const View& x, const View* weight,
                const View* bias, double eps);
void layer_norm_backward(const View* dx, const View* dweight, const View* dbias, const View& g, const View& x,
                         const View* mean, const View& rstd, const View* weight);

void attention(const View& out, const View& log_sum, const View& query, const View& key, const View& value,
               const AttentionMask& mask);
void attention_backward(const View& dquery, const View& dkey, const View& dvalue, const View& g, const View& out,
                        const View& log_sum, const View& query, const View& key, const View& value,
                        const AttentionMask& mask);

void gather(const View& out, const View& x, int dim, const View& index, IndexUse use);
void scatter_add(const View& out, int dim, const View& index, const View& source, IndexUse use);
void scatter(const View& out, int dim, const View& index, const View& source, IndexUse use);
void sort_places(const View& places, const View& x, bool descending);
void index_select(const View& out, const View& x, int dim, const View& index, IndexUse use);
void index_add(const View& out, int dim, const View& index, const View& source, IndexUse use);

void uniform(const View& out, double low, double high, uint64_t seed, uint64_t offset);
void normal(const View& out, double mean, double stddev, uint64_t seed, uint64_t offset);
void bernoulli(const View& out, double p, uint64_t seed, uint64_t offset);
void dropout(const View& out, const View& x, double p, uint64_t seed, uint64_t offset);
void randint(const View& out, int64_t low, int64_t high, uint64_t seed, uint64_t offset);

void optimizer_step(std::span<const StepBlock> blocks, DType dtype, const StepRule& rule);

}  // namespace tendril::cpu
