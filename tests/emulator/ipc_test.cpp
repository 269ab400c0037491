// Device memory that another process opens.
#include "emulated.h"
#include "tests/rpc/process.h"

BOOST_AUTO_TEST_SUITE(ipc)

using namespace tendril::test;

namespace {

constexpr std::size_t kCount = 1 << 20;  // of floats: an allocation with pages of its own

std::string digits(const cudaIpcMemHandle_t& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(byte));
    text += two;
  }
  return text;
}

/// The other process, which reads its commands from a file that this one writes.
class Other {
 public:
  explicit Other(const cudaIpcMemHandle_t& handle)
      : process_((make(), std::vector<std::string>{"/bin/sh", "-c",
                                                   "exec " TENDRIL_TEST_PROGRAMS "/ipc " + digits(handle) + " < " +
                                                       "/proc/" + std::to_string(::getpid()) + "/fd/" +
                                                       std::to_string(ends_[0]) + " 2>&1"})),
        said(process_.line()) {}
  ~Other() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  std::string line() { return process_.line(); }
  std::string tell(const std::string& command) {
    const std::string text = command + "\n";
    BOOST_TEST_REQUIRE(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    return process_.line();
  }
  int signal_after(const std::string& command) {
    const std::string text = command + "\n";
    BOOST_TEST_REQUIRE(::write(ends_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    return process_.wait().signal;
  }

 private:
  void make() { BOOST_TEST_REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0); }
  int ends_[2] = {-1, -1};
  Process process_;

 public:
  const std::string said;
};

cudaIpcMemHandle_t handle_of(void* memory) {
  cudaIpcMemHandle_t handle;
  CUDA_OK(cudaIpcGetMemHandle(&handle, memory));
  return handle;
}

}  // namespace

BOOST_AUTO_TEST_CASE(both_processes_see_the_same_memory) {
  std::vector<float> values(kCount, 3);
  const Array<float> shared(values);
  Other other(handle_of(shared.data()));
  BOOST_TEST(other.said == "cudaSuccess");
  BOOST_TEST(other.line() == "the same cudaSuccess");
  BOOST_TEST(other.tell("read") == "cudaSuccess 3");
  values[0] = 4;
  CUDA_OK(copy_now(shared.data(), values.data(), sizeof(float), cudaMemcpyHostToDevice));
  BOOST_TEST(other.tell("read") == "cudaSuccess 4");
  BOOST_TEST(other.tell("write 5") == "written");
  values[0] = 5;
  BOOST_TEST(shared.values() == values);
  BOOST_TEST(other.tell("close") == "cudaSuccess cudaErrorInvalidValue");
  BOOST_TEST(shared.values() == values);
}

BOOST_AUTO_TEST_CASE(it_is_memory_of_the_device_there_too) {
  const Array<float> shared(std::vector<float>(kCount, 3));
  Other other(handle_of(shared.data()));
  BOOST_TEST(other.line() == "the same cudaSuccess");
  BOOST_TEST(other.signal_after("touch") != 0);
}

BOOST_AUTO_TEST_CASE(what_was_freed_is_not_there_and_never_something_else) {
  cudaIpcMemHandle_t former;
  {
    const Array<float> shared(std::vector<float>(kCount, 3));
    former = handle_of(shared.data());
    Other other(former);
    BOOST_TEST(other.line() == "the same cudaSuccess");
    BOOST_TEST(other.tell("read") == "cudaSuccess 3");
  }
  BOOST_TEST(Other(former).said == "cudaErrorInvalidResourceHandle");
  const Array<float> next(std::vector<float>(kCount, 7));  // at the same place
  const cudaIpcMemHandle_t handle = handle_of(next.data());
  BOOST_TEST(Other(former).said == "cudaErrorInvalidResourceHandle");
  BOOST_TEST(Other(handle).said == "cudaSuccess");
}

BOOST_AUTO_TEST_CASE(who_still_reads_what_was_freed_reads_nonsense) {
  auto shared = std::make_unique<Array<float>>(std::vector<float>(kCount, 3));
  Other other(handle_of(shared->data()));
  BOOST_TEST(other.line() == "the same cudaSuccess");
  shared.reset();
  const std::string read = other.tell("read");
  BOOST_TEST((read == "cudaSuccess nan" || read == "cudaSuccess -nan"), read);
}

BOOST_AUTO_TEST_CASE(wrong_handles_and_places_are_refused) {
  const Array<float> shared(std::vector<float>(kCount, 3)), small(100);
  cudaIpcMemHandle_t handle;
  BOOST_TEST(cudaIpcGetMemHandle(&handle, shared.data() + 1) == cudaErrorInvalidValue);  // not its beginning
  BOOST_TEST(cudaIpcGetMemHandle(&handle, small.data()) == cudaErrorInvalidValue);
  handle = handle_of(shared.data());
  BOOST_TEST(digits(handle) == digits(handle_of(shared.data())));
  void* opened = nullptr;
  BOOST_TEST(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorDeviceUninitialized);
  BOOST_TEST(cudaIpcOpenMemHandle(&opened, handle, 0) == cudaErrorInvalidValue);
  BOOST_TEST(cudaIpcCloseMemHandle(shared.data()) == cudaErrorInvalidValue);
  cudaGetLastError();
  BOOST_TEST(Other(cudaIpcMemHandle_t{}).said == "cudaErrorInvalidResourceHandle");
}

BOOST_AUTO_TEST_CASE(devices_are_the_same_in_every_process_and_different_from_each_other) {
  cudaDeviceProp first, again, second;
  CUDA_OK(cudaGetDeviceProperties(&first, 0));
  CUDA_OK(cudaGetDeviceProperties(&again, 0));
  CUDA_OK(cudaGetDeviceProperties(&second, 1));
  BOOST_TEST(std::string(first.uuid.bytes, 16) == std::string(again.uuid.bytes, 16));
  BOOST_TEST(std::string(first.uuid.bytes, 16) != std::string(second.uuid.bytes, 16));
}

BOOST_AUTO_TEST_SUITE_END()
