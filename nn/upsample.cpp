#include "tendril/nn/upsample.h"

#include <sstream>

namespace tendril::nn {

std::string Upsample::extra_repr() const {
  std::ostringstream out;
  if (options.size) {
    out << "size=" << *options.size;
  } else if (options.scale_factor) {
    out << "scale_factor=(";
    for (std::size_t i = 0; i < options.scale_factor->size(); ++i) out << (i ? ", " : "") << (*options.scale_factor)[i];
    out << ")";
  }
  out << ", mode=" << name_of(options.mode);
  if (options.align_corners) out << ", align_corners=true";
  return out.str();
}

}  // namespace tendril::nn
