#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tendril/nn/activation.h"
#include "tendril/nn/batch_norm.h"
#include "tendril/nn/conv.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/pooling.h"
#include "tendril/nn/sequential.h"
#include "tendril/nn/utils/fusion.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2015), with the structure and the
/// parameter names of torchvision's: "conv1.weight", "layer1.0.bn2.running_mean", "layer4.0.downsample.0.weight".
/// Parameters are made on the default device (tensor/device.h).
/// Thread-safety: as BatchNorm2d, forward in training needs the caller's own ordering.
namespace tendril::nn {

/// x -> relu(body(x) + shortcut(x)); the shortcut is x itself, or a 1x1 convolution where sizes change.
/// The body is two 3x3 convolutions of `width` channels.
class BasicBlock : public Module {
 public:
  static constexpr int64_t kExpansion = 1;  ///< output channels are kExpansion width

  BasicBlock(int64_t in_channels, int64_t width, int64_t stride = 1, DType dtype = kFloat32,
             Generator& generator = default_generator());
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return call(*this, x); }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  std::unique_ptr<Sequential> downsample;  ///< null where the shortcut is x itself

  void fuse_conv_bn();  ///< see ResNet::fuse_conv_bn

 private:
  std::vector<utils::FusedConv> fused_;  // empty: none
};

/// The body is a 1x1 convolution down to `width` channels, a 3x3 one (which has the stride, as in torchvision's version
/// "1.5") and a 1x1 one up to 4 width.
class Bottleneck : public Module {
 public:
  static constexpr int64_t kExpansion = 4;  ///< output channels are kExpansion width

  Bottleneck(int64_t in_channels, int64_t width, int64_t stride = 1, DType dtype = kFloat32,
             Generator& generator = default_generator());
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return call(*this, x); }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  std::unique_ptr<Sequential> downsample;  ///< null where the shortcut is x itself

  void fuse_conv_bn();  ///< see ResNet::fuse_conv_bn

 private:
  std::vector<utils::FusedConv> fused_;
};

/// A stage of `blocks` blocks, of which the first has the stride, as a Sequential that is appended to or held:
///     fill_resnet_stage<nn::Bottleneck>(layer2, 256, 128, 4, 2);
/// Returns the number of output channels.
template <class Block>
int64_t fill_resnet_stage(Sequential& stage, int64_t in_channels, int64_t width, int64_t blocks, int64_t stride = 1,
                          DType dtype = kFloat32, Generator& generator = default_generator()) {
  for (int64_t i = 0; i < blocks; ++i) {
    stage.emplace<Block>(in_channels, width, i == 0 ? stride : 1, dtype, generator);
    in_channels = width * Block::kExpansion;
  }
  return in_channels;
}

/// Initial values as torchvision's, for all convolutions and batch normalisations below `module`:
/// kaiming_normal_ by fan out for relu; weight 1 and bias 0.
void init_resnet_(Module& module, Generator& generator = default_generator());

struct ResNetOptions {
  int64_t num_classes = 1000;  ///< numbers of a result
  int64_t base = 64;  ///< channels of the first convolution and width of the first stage; each stage doubles it
  DType dtype = kFloat32;
  Generator& generator = default_generator();  ///< for the initial values
};

/// Images [batch, 3, height, width] to scores [batch, num_classes].
template <class Block>
class ResNet : public Module {
 public:
  /// `blocks`: how many each of the four stages has. Throws Error for numbers that are not positive.
  explicit ResNet(const std::array<int64_t, 4>& blocks, const ResNetOptions& options = {});
  Tensor forward(const Tensor& x);
  Tensor operator()(const Tensor& x) { return call(*this, x); }
  /// For inference: merges each convolution with the batch normalisation behind it (nn/utils/fusion.h), for evaluation
  /// under NoGrad. Blocks whose parameters or statistics change later use their layers until it is called again.
  /// Training, and evaluation without NoGrad, always use the layers. Results differ by roundings.
  void fuse_conv_bn();

  Conv2d conv1;
  BatchNorm2d bn1;
  ReLU relu;
  MaxPool2d maxpool;
  Sequential layer1, layer2, layer3, layer4;
  AdaptiveAvgPool2d avgpool;
  Linear fc;

 private:
  std::vector<utils::FusedConv> fused_;
};
extern template class ResNet<BasicBlock>;
extern template class ResNet<Bottleneck>;

/// Of BasicBlocks, 18 layers.
ResNet<BasicBlock> resnet18(const ResNetOptions& options = {});
/// Of BasicBlocks, 34 layers.
ResNet<BasicBlock> resnet34(const ResNetOptions& options = {});
/// Of Bottlenecks, 50 layers.
ResNet<Bottleneck> resnet50(const ResNetOptions& options = {});
/// Of Bottlenecks, 101 layers.
ResNet<Bottleneck> resnet101(const ResNetOptions& options = {});
/// Of Bottlenecks, 152 layers.
ResNet<Bottleneck> resnet152(const ResNetOptions& options = {});

}  // namespace tendril::nn

TENDRIL_API_END
