#include "tendril/rpc/device/device_routes.h"

#include <algorithm>
#include <sstream>

#include "tendril/rpc/error.h"

namespace tendril::rpc::detail {

void DeviceRoutes::place(Message& message) const {
  const bool given = !message.placements.empty();
  if (!given && message.tensors.empty()) return;
  const DeviceMap& map = message.kind == MessageKind::request ? mine_.map : theirs_.map;
  const auto on_cpu = [](const Tensor& tensor) { return !tensor.defined() || tensor.device().is_cpu(); };
  if (!given && map.empty() && std::all_of(message.tensors.begin(), message.tensors.end(), on_cpu)) return;
  TENDRIL_CHECK_AS(UsageError, !given || message.placements.size() == message.tensors.size(), "a message with ",
                   message.tensors.size(), " tensors has ", message.placements.size(), " placements");
  message.placements.resize(message.tensors.size());
  bool all_on_cpu = true;
  for (std::size_t i = 0; i < message.tensors.size(); ++i) {
    Placement& placement = message.placements[i];
    placement.from = on_cpu(message.tensors[i]) ? kCPU : message.tensors[i].device();
    if (!given) placement.to = target(message, i);
    if (!placement.to.is_cpu() && placement.to.index >= theirs_.cuda_devices) {
      refuse(message, i, [&](std::ostream& why) {
        why << "would arrive on " << placement.to << ", but that worker has " << devices_of(theirs_);
        if (!given) why << "; the device map is " << map.to_string();
      });
    }
    all_on_cpu = all_on_cpu && placement == Placement{};
  }
  if (all_on_cpu) message.placements.clear();
}

Device DeviceRoutes::target(const Message& message, std::size_t index) const {
  const Device from = message.placements[index].from;
  const bool request = message.kind == MessageKind::request;
  const auto to = request ? mine_.map.remote_of(from) : theirs_.map.local_of(from);
  if (to) return *to;
  refuse(message, index, [&](std::ostream& why) {
    if (request) {
      why << "has no target device there: the device map is " << mine_.map.to_string();
    } else {
      why << "has no target device there: that worker's device map " << theirs_.map.to_string() << " maps no device to "
          << from;
    }
  });
}

template <class Why>
void DeviceRoutes::refuse(const Message& message, std::size_t index, Why why) const {
  std::ostringstream text;
  text << (message.kind == MessageKind::request ? "call to " : "reply to ") << name_of(peer_) << ": tensor " << index
       << ", on " << message.placements[index].from << ", ";
  why(text);
  text << "; name the device in device_maps, or move the tensor first: .to(kCPU)";
  throw UsageError(text.str());
}

}  // namespace tendril::rpc::detail
