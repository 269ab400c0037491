#pragma once

#include <tendril/nn/flatten.h>
#include <tendril/nn/models/resnet.h>

#include <array>
#include <cstdint>
#include <string>

namespace image_classifier {

/// Makes a "cnn" or "resnet18" model for images of `sizes` = [channels, height, width]. ResNet-18 needs three channels.
inline tendril::nn::Sequential make_model(const std::string& name, const tendril::Dims& sizes, std::int64_t classes) {
  namespace nn = tendril::nn;
  nn::Sequential model;
  if (name == "resnet18") {
    model.emplace<nn::ResNet<nn::BasicBlock>>(std::array<std::int64_t, 4>{2, 2, 2, 2},
                                              nn::ResNetOptions{.num_classes = classes});
    return model;
  }
  for (const auto& [in, out] : {std::pair{sizes[0], std::int64_t{16}}, {16, 32}}) {
    model.emplace<nn::Conv2d>(in, out, 3, nn::Conv2dOptions{.padding = 1});
    model.emplace<nn::BatchNorm2d>(out);
    model.emplace<nn::ReLU>();
    model.emplace<nn::MaxPool2d>(2);
  }
  model.emplace<nn::Flatten>();
  model.emplace<nn::Linear>(32 * (sizes[1] / 4) * (sizes[2] / 4), classes);
  return model;
}

}  // namespace image_classifier
