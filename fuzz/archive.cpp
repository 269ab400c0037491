// Arguments and results of every kind of type; the first byte says of which.
#include "tendril/rpc/archive.h"

#include <array>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "fuzz/input.h"
#include "tendril/rpc/error.h"
#include "tendril/tensor/raw.h"

using namespace tendril::rpc;

namespace {

struct Tree {
  int32_t value = 0;
  std::vector<Tree> children;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive& value& children;
  }
};

struct Nothing {
  template <class Archive>
  void serialize(Archive&, unsigned) {}
};

template <class T>
void read(Message message) {
  try {
    T value{};
    InputArchive in(message, "fuzz");
    in >> value;
    in.finish();
    Message again;  // what was read can be written
    OutputArchive out(again);
    out << value;
  } catch (const MessageError&) {
  }
}

using Reader = void (*)(Message);
constexpr Reader kReaders[] = {
    &read<std::tuple<int8_t, bool, uint16_t, double, std::string>>,
    &read<std::vector<int64_t>>,
    &read<std::vector<bool>>,
    &read<std::vector<std::vector<std::string>>>,
    &read<std::map<std::string, std::vector<float>>>,
    &read<std::unordered_map<int32_t, std::optional<std::string>>>,
    &read<std::set<std::string>>,
    &read<std::list<std::deque<std::array<uint8_t, 3>>>>,
    &read<std::variant<int32_t, std::string, std::vector<double>>>,
    &read<std::optional<std::tuple<bool, std::chrono::microseconds>>>,
    &read<std::vector<Nothing>>,
    &read<Tree>,
    &read<std::vector<tendril::Tensor>>,
    &read<std::pair<std::string, tendril::Tensor>>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const tendril::Tensor tensor = tendril::raw::zeros({2});
  tendril::fuzz::Input input(data, size);
  const Reader reader = kReaders[input.number<uint8_t>() % std::size(kReaders)];
  Message message;
  message.tensors = {tensor, tensor};
  const auto rest = input.rest();
  message.payload.assign(rest.begin(), rest.end());
  reader(std::move(message));
  return 0;
}
