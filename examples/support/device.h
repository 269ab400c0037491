#pragma once

#include <tendril/tensor/cuda/runtime.h>
#include <tendril/tensor/device.h>
#include <tendril/tensor/error.h>
#include <tendril/tensor/random.h>

#include <cstdint>
#include <cstdio>
#include <string>

/// What the flag --device of the examples says: "cpu", "cuda" or "cuda:N".
namespace examples {

using tendril::Device;
using tendril::DeviceType;

/// The device of a flag that has been checked; `usual` is what "cuda" alone stands for.
inline Device device_of(const std::string& flag, int usual = 0) {
  if (flag == "cuda") return {DeviceType::cuda, static_cast<int8_t>(usual)};
  return tendril::parse_device(flag);
}

/// Of a program's --device and --seed: where tensors are made from here on, and what all random numbers follow from.
template <class Options>
void set_device_and_seed(const Options& options) {
  tendril::set_default_device(device_of(options.device));
  tendril::manual_seed(static_cast<std::uint64_t>(options.seed));
}

/// Says so, with the status to exit with, where this machine lacks the device: before any worker starts.
inline bool device_is_missing(const std::string& flag, int& exit_status) {
  const int count = tendril::device_count(DeviceType::cuda);
  if (flag == "cpu" || device_of(flag).index < count) return false;
  const std::string seen = "cuda:0 to cuda:" + std::to_string(count - 1) + " are what this process sees";
  std::fprintf(stderr, "no CUDA device: --device %s: %s\n", flag.c_str(),
               (count == 0 ? tendril::cuda::why_unavailable() : seen).c_str());
  exit_status = 2;
  return true;
}

}  // namespace examples
