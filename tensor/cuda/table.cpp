#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/current.h"

namespace tendril {

constinit const Kernels cuda::table = {
    .device = "cuda",
    .unary = unary,
    .predicate = predicate,
    .binary = binary,
    .unary_gradient = unary_gradient,
    .binary_gradient = binary_gradient,
    .compare = compare,
    .add_scaled = add_scaled,
    .where = where,
    .clamp = clamp,
    .copy = copy,
    .fill = fill,
    .arange = arange,
    .reduce = reduce,
    .extremum = extremum,
    .cumsum = cumsum,
    .softmax = softmax,
    .log_softmax = log_softmax,
    .log_sum_exp = log_sum_exp,
    .cross_entropy_backward = cross_entropy_backward,
    .matmul = matmul,
    .lstm_cell = lstm_cell,
    .lstm_cell_backward = lstm_cell_backward,
    .lstm_layer_reserve = lstm_layer_reserve,
    .lstm_layer = lstm_layer,
    .lstm_layer_backward = lstm_layer_backward,
    .conv2d = conv2d,
    .conv2d_data = conv2d_data,
    .conv2d_filter = conv2d_filter,
    .max_pool2d = max_pool2d,
    .mean_pool2d = mean_pool2d,
    .mean_pool2d_transpose = mean_pool2d_transpose,
    .batch_norm = batch_norm,
    .batch_norm_backward = batch_norm_backward,
    .batch_norm_relu = batch_norm_relu,
    .batch_norm_relu_backward = batch_norm_relu_backward,
    .gather = gather,
    .scatter_add = scatter_add,
    .scatter = scatter,
    .index_select = index_select,
    .index_add = index_add,
    .uniform = uniform,
    .normal = normal,
    .bernoulli = bernoulli,
    .dropout = dropout,
    .randint = randint,
    .optimizer_step = optimizer_step,
};

const Kernels& detail::kernels_elsewhere(Device device) {
  cuda::set_current_device(device.index);
  return cuda::table;
}

}  // namespace tendril
