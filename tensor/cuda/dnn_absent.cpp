#include "tendril/tensor/cuda/conv.h"
#include "tendril/tensor/cuda/cuda.h"
#include "tendril/tensor/cuda/norm.h"

/// Stands in for cuDNN where it was not found.
namespace tendril::cuda {

bool convolve_by_cudnn(const Conv&) { return false; }

bool batch_norm_by_cudnn(const View&, const View&, const View&, const View&, const View*, const View*, double) {
  return false;
}
bool batch_norm_backward_by_cudnn(const View*, const View*, const View*, const View&, const View&, const View&,
                                  const View&, const View*, double) {
  return false;
}

// Never called: lstm_layer_reserve has refused.
int64_t lstm_layer_reserve(LstmLayer&, bool) { return -1; }
void lstm_layer(const LstmLayer&, const View&, const View&, void*) {}
void lstm_layer_backward(const LstmLayer&, const View&, void*, const LstmLayerGradients&) {}

}  // namespace tendril::cuda
