#include "tendril/nn/pooling.h"

#include <sstream>

namespace tendril::nn {

std::string MaxPool2d::extra_repr() const {
  std::ostringstream out;
  out << "kernel_size=" << kernel_size << ", stride=" << (options.stride == Size2(0) ? kernel_size : options.stride)
      << ", padding=" << options.padding << ", dilation=" << options.dilation
      << ", ceil_mode=" << (options.ceil_mode ? "true" : "false");
  return out.str();
}

std::string AvgPool2d::extra_repr() const {
  std::ostringstream out;
  out << "kernel_size=" << kernel_size << ", stride=" << (options.stride == Size2(0) ? kernel_size : options.stride)
      << ", padding=" << options.padding;
  return out.str();
}

std::string AdaptiveAvgPool2d::extra_repr() const {
  std::ostringstream out;
  out << "output_size=" << output_size;
  return out.str();
}

std::string AdaptiveMaxPool2d::extra_repr() const {
  std::ostringstream out;
  out << "output_size=" << output_size;
  return out.str();
}

std::string MaxPool1d::extra_repr() const {
  std::ostringstream out;
  out << "kernel_size=" << kernel_size << ", stride=" << (options.stride ? options.stride : kernel_size)
      << ", padding=" << options.padding << ", dilation=" << options.dilation
      << ", ceil_mode=" << (options.ceil_mode ? "true" : "false");
  return out.str();
}

std::string AvgPool1d::extra_repr() const {
  std::ostringstream out;
  out << "kernel_size=" << kernel_size << ", stride=" << (options.stride ? options.stride : kernel_size)
      << ", padding=" << options.padding;
  return out.str();
}

std::string AdaptiveAvgPool1d::extra_repr() const { return "output_size=" + std::to_string(output_size); }
std::string AdaptiveMaxPool1d::extra_repr() const { return "output_size=" + std::to_string(output_size); }

}  // namespace tendril::nn
