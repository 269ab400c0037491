#pragma once

#include <tendril/tensor/cuda/runtime.h>
#include <tendril/tensor/device.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/random.h>

#include <cstdint>
#include <cstdio>
#include <string>

/// The --device flag of the examples: "cpu", "cuda" or "cuda:N".
namespace examples {

using tendril::Device;
using tendril::DeviceType;

/// Returns the device of a valid flag value. `usual` is the index that plain "cuda" stands for.
inline Device device_of(const std::string& flag, int usual = 0) {
  if (flag == "cuda") return {DeviceType::cuda, static_cast<int8_t>(usual)};
  return tendril::parse_device(flag);
}

/// Sets the default device and seeds the default generator from a program's --device and --seed.
template <class Options>
void set_device_and_seed(const Options& options) {
  tendril::set_default_device(device_of(options.device));
  tendril::manual_seed(static_cast<std::uint64_t>(options.seed));
}

/// If this machine lacks the device, prints an error, stores the exit status in `exit_status`, and returns true. Runs
/// before any worker starts.
inline bool device_is_missing(const std::string& flag, int& exit_status) {
  const int count = tendril::device_count(DeviceType::cuda);
  if (flag == "cpu" || device_of(flag).index < count) return false;
  const std::string seen = "cuda:0 to cuda:" + std::to_string(count - 1) + " are visible to this process";
  std::fprintf(stderr, "no CUDA device: --device %s: %s\n", flag.c_str(),
               (count == 0 ? tendril::cuda::why_unavailable() : seen).c_str());
  exit_status = 2;
  return true;
}

}  // namespace examples
