#pragma once

#include <tendril/tensor/cuda/runtime.h>
#include <tendril/tensor/device.h>

#include <cstdio>
#include <string>

/// The flag --device of the examples: "cpu", "cuda" or "cuda:N".
namespace examples {

using tendril::Device;
using tendril::DeviceType;

/// The number in "cuda:N"; -1 in "cuda"; -2 in anything else.
inline int cuda_index(const std::string& flag) {
  if (flag == "cuda") return -1;
  const bool numbered = flag.rfind("cuda:", 0) == 0 && flag.size() > 5 && flag.size() <= 8 &&
                        flag.find_first_not_of("0123456789", 5) == std::string::npos;
  const int index = numbered ? std::stoi(flag.substr(5)) : -2;
  return index <= 127 ? index : -2;
}

/// The device of a flag that has been checked; `usual` is what "cuda" stands for.
inline Device device_of(const std::string& flag, int usual = 0) {
  if (flag == "cpu") return tendril::kCPU;
  const int index = cuda_index(flag);
  return {DeviceType::cuda, static_cast<int8_t>(index < 0 ? usual : index)};
}

/// To a CLI::App.
template <class App>
void add_device_flag(App& app, std::string& flag, const char* help) {
  app.add_option("--device", flag, help)->check([](const std::string& text) {
    return text == "cpu" || cuda_index(text) > -2 ? "" : "expected cpu, cuda or cuda:N, got " + text;
  });
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
