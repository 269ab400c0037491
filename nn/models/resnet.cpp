#include "tendril/nn/models/resnet.h"

#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/nn/init.h"
#include "tendril/tensor/raw.h"

namespace tendril::nn {
namespace {

/// Without bias: a batch normalisation follows.
Conv2dOptions convolution(int64_t stride, int64_t padding, DType dtype, Generator& generator) {
  return {.stride = stride, .padding = padding, .bias = false, .dtype = dtype, .generator = generator};
}

/// What makes x fit the body's result; null if it does already.
std::unique_ptr<Sequential> shortcut(int64_t in, int64_t out, int64_t stride, DType dtype, Generator& generator) {
  if (stride == 1 && in == out) return nullptr;
  auto layers = std::make_unique<Sequential>();
  layers->emplace<Conv2d>(in, out, 1, convolution(stride, 0, dtype, generator));
  layers->emplace<BatchNorm2d>(out, BatchNormOptions{.dtype = dtype});
  return layers;
}

Tensor past(const std::unique_ptr<Sequential>& downsample, const Tensor& x) {
  return downsample ? downsample->forward(x) : x;
}

using Fused = std::vector<utils::FusedConv>;

using Layers = std::pair<const Conv2d&, const BatchNorm2d&>;

Layers layers_of(Sequential& shortcut) {
  return {dynamic_cast<const Conv2d&>(shortcut[0]), dynamic_cast<const BatchNorm2d&>(shortcut[1])};
}

/// Whether `fused` was made of the layers' current parameters and statistics, and may be used instead of them.
bool goes_fused(const Fused& fused, const Module& block, std::initializer_list<Layers> layers,
                const std::unique_ptr<Sequential>& downsample = nullptr) {
  if (fused.empty() || block.is_training() || autograd::grad_enabled()) return false;
  auto at = fused.begin();
  for (const auto& [conv, bn] : layers) {
    if (!at++->is_current(conv, bn)) return false;
  }
  if (!downsample) return true;
  const auto [conv, bn] = layers_of(*downsample);
  return at->is_current(conv, bn);
}

/// The last two of `fused` are the body's last convolution and the shortcut's, if it has one.
Tensor joined(const Fused& fused, std::size_t last, const Tensor& body, const Tensor& x) {
  Tensor y = fused[last](body);
  y += fused.size() > last + 1 ? fused[last + 1](x) : x;
  raw::unary_(Unary::relu, y);
  return y;
}

void add_shortcut(Fused& fused, const std::unique_ptr<Sequential>& downsample) {
  if (!downsample) return;
  const auto [conv, bn] = layers_of(*downsample);
  fused.emplace_back(conv, bn);
}

}  // namespace

BasicBlock::BasicBlock(int64_t in_channels, int64_t width, int64_t stride, DType dtype, Generator& generator)
    : conv1(in_channels, width, 3, convolution(stride, 1, dtype, generator)),
      bn1(width, {.dtype = dtype}),
      conv2(width, width, 3, convolution(1, 1, dtype, generator)),
      bn2(width, {.dtype = dtype}),
      downsample(shortcut(in_channels, width, stride, dtype, generator)) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("conv2", conv2);
  register_module("bn2", bn2);
  if (downsample) register_module("downsample", *downsample);
}

Tensor BasicBlock::forward(const Tensor& x) {
  if (goes_fused(fused_, *this, {{conv1, bn1}, {conv2, bn2}}, downsample))
    return joined(fused_, 1, fused_[0].relu(x), x);
  const Tensor y = bn1.forward_relu(conv1(x));
  return bn2.forward_relu(conv2(y), past(downsample, x));
}

void BasicBlock::fuse_conv_bn() {
  Fused fused{{conv1, bn1}, {conv2, bn2}};
  add_shortcut(fused, downsample);
  fused_ = std::move(fused);
}

Bottleneck::Bottleneck(int64_t in_channels, int64_t width, int64_t stride, DType dtype, Generator& generator)
    : conv1(in_channels, width, 1, convolution(1, 0, dtype, generator)),
      bn1(width, {.dtype = dtype}),
      conv2(width, width, 3, convolution(stride, 1, dtype, generator)),
      bn2(width, {.dtype = dtype}),
      conv3(width, width * kExpansion, 1, convolution(1, 0, dtype, generator)),
      bn3(width * kExpansion, {.dtype = dtype}),
      downsample(shortcut(in_channels, width * kExpansion, stride, dtype, generator)) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("conv2", conv2);
  register_module("bn2", bn2);
  register_module("conv3", conv3);
  register_module("bn3", bn3);
  if (downsample) register_module("downsample", *downsample);
}

Tensor Bottleneck::forward(const Tensor& x) {
  if (goes_fused(fused_, *this, {{conv1, bn1}, {conv2, bn2}, {conv3, bn3}}, downsample))
    return joined(fused_, 2, fused_[1].relu(fused_[0].relu(x)), x);
  Tensor y = bn1.forward_relu(conv1(x));
  y = bn2.forward_relu(conv2(y));
  return bn3.forward_relu(conv3(y), past(downsample, x));
}

void Bottleneck::fuse_conv_bn() {
  Fused fused{{conv1, bn1}, {conv2, bn2}, {conv3, bn3}};
  add_shortcut(fused, downsample);
  fused_ = std::move(fused);
}

void init_resnet_(Module& module, Generator& generator) {
  for (Module* each : module.modules()) {
    if (auto* conv = dynamic_cast<Conv2d*>(each)) {
      init::kaiming_normal_(conv->weight,
                            {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu, .generator = generator});
    } else if (auto* norm = dynamic_cast<BatchNorm2d*>(each); norm && norm->weight.defined()) {
      init::ones_(norm->weight);
      init::zeros_(norm->bias);
    }
  }
}

template <class Block>
ResNet<Block>::ResNet(const std::array<int64_t, 4>& blocks, const ResNetOptions& options)
    : conv1(3, options.base, 7, convolution(2, 3, options.dtype, options.generator)),
      bn1(options.base, {.dtype = options.dtype}),
      maxpool(3, {.stride = 2, .padding = 1}),
      avgpool(1),
      fc(8 * options.base * Block::kExpansion, options.num_classes,
         {.dtype = options.dtype, .generator = options.generator}) {
  register_module("conv1", conv1);
  register_module("bn1", bn1);
  register_module("relu", relu);
  register_module("maxpool", maxpool);
  int64_t channels = options.base, width = options.base;
  Sequential* const stages[] = {&layer1, &layer2, &layer3, &layer4};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    TENDRIL_CHECK(blocks[i] > 0, "ResNet: blocks: got ", blocks[i], " for stage ", i + 1, ", expected at least one");
    channels = fill_resnet_stage<Block>(*stages[i], channels, width, blocks[i], i == 0 ? 1 : 2, options.dtype,
                                        options.generator);
    width *= 2;
    register_module("layer" + std::to_string(i + 1), *stages[i]);
  }
  register_module("avgpool", avgpool);
  register_module("fc", fc);
  init_resnet_(*this, options.generator);
}

template <class Block>
Tensor ResNet<Block>::forward(const Tensor& x) {
  Tensor y = maxpool(goes_fused(fused_, *this, {{conv1, bn1}}) ? fused_[0].relu(x) : bn1.forward_relu(conv1(x)));
  for (Sequential* stage : {&layer1, &layer2, &layer3, &layer4}) y = stage->forward(y);
  return fc(avgpool(y).flatten(1));
}

template <class Block>
void ResNet<Block>::fuse_conv_bn() {
  for (Sequential* stage : {&layer1, &layer2, &layer3, &layer4}) {
    for (std::size_t i = 0; i < stage->size(); ++i) dynamic_cast<Block&>((*stage)[i]).fuse_conv_bn();
  }
  fused_ = {{conv1, bn1}};
}

template class ResNet<BasicBlock>;
template class ResNet<Bottleneck>;

ResNet<BasicBlock> resnet18(const ResNetOptions& options) { return ResNet<BasicBlock>({2, 2, 2, 2}, options); }
ResNet<BasicBlock> resnet34(const ResNetOptions& options) { return ResNet<BasicBlock>({3, 4, 6, 3}, options); }
ResNet<Bottleneck> resnet50(const ResNetOptions& options) { return ResNet<Bottleneck>({3, 4, 6, 3}, options); }
ResNet<Bottleneck> resnet101(const ResNetOptions& options) { return ResNet<Bottleneck>({3, 4, 23, 3}, options); }
ResNet<Bottleneck> resnet152(const ResNetOptions& options) { return ResNet<Bottleneck>({3, 8, 36, 3}, options); }

}  // namespace tendril::nn
