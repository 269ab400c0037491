#include "tendril/rpc/error.h"

namespace tendril::rpc {

void ErrorPath::passed_on_by(std::string name) {
  if (via.size() < kShown) {
    via.push_back(std::move(name));
  } else {
    ++more;
  }
}

std::string ErrorPath::to_string() const {
  std::string text = "worker '" + worker + "'";
  if (via.empty()) return text;
  for (std::size_t i = 0; i < via.size(); ++i) text += (i == 0 ? " (by way of '" : ", '") + via[i] + "'";
  if (more > 0) text += " and " + std::to_string(more) + " more";
  return text + ")";
}

RemoteError::RemoteError(ErrorPath path, std::string type, std::string message)
    : RpcError("error on " + path.to_string() + ": " + type + ": " + message),
      path_(std::move(path)),
      type_(std::move(type)),
      message_(std::move(message)) {}

}  // namespace tendril::rpc
