#include "tendril/nn/upsample.h"

#include <sstream>

namespace tendril::nn {

std::string Upsample::extra_repr() const {
  std::ostringstream out;
  if (options.size) {
    out << "size=" << *options.size;
  } else if (options.scale_factor) {
    out << "scale_factor=(" << options.scale_factor->first << ", " << options.scale_factor->second << ")";
  }
  out << ", mode=" << (options.mode == InterpolateMode::nearest ? "nearest" : "bilinear");
  if (options.align_corners) out << ", align_corners=true";
  return out.str();
}

}  // namespace tendril::nn
