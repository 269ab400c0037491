#include <sstream>

#include "tendril/rpc/wire/archive/input.h"
#include "tendril/rpc/wire/archive/output.h"
#include "tendril/rpc/wire/type_name.h"

namespace tendril::rpc {
namespace {
constexpr uint32_t kNone = ~uint32_t{0};  // the index of an undefined tensor or an empty RRef
}

void OutputArchive::tensor(const Tensor& value) {
  if (!value.defined()) return number(kNone);
  number(static_cast<uint32_t>(message_.tensors.size()));
  message_.tensors.push_back(value);
}

void OutputArchive::reference(std::shared_ptr<RRefState> state) {
  if (!state) return number(kNone);
  number(static_cast<uint32_t>(message_.references.size()));
  message_.references.push_back(std::move(state));
}

void OutputArchive::throw_too_deep() {
  throw MessageError("a value to be sent is nested more than " + std::to_string(kMaxNesting) + " levels deep");
}

Tensor InputArchive::tensor() {
  const auto index = number<uint32_t>();
  if (index == kNone) return {};
  // In order, each once: no two values read from a message may share elements.
  if (index != next_tensor_ || index >= message_.tensors.size()) {
    fail("got tensor " + std::to_string(index) + " of " + std::to_string(message_.tensors.size()) + ", expected " +
         std::to_string(next_tensor_));
  }
  return std::move(message_.tensors[next_tensor_++]);
}

std::shared_ptr<RRefState> InputArchive::reference() {
  const auto index = number<uint32_t>();
  if (index == kNone) return nullptr;
  if (index != next_reference_ || index >= message_.references.size()) {
    fail("got reference " + std::to_string(index) + " of " + std::to_string(message_.references.size()) +
         ", expected " + std::to_string(next_reference_));
  }
  return std::move(message_.references[next_reference_++]);
}

void InputArchive::finish() {
  type_ = nullptr;
  if (left() > 0) fail(std::to_string(left()) + " bytes are left over");
  if (next_tensor_ != message_.tensors.size()) {
    fail(std::to_string(message_.tensors.size() - next_tensor_) + " tensors are left over");
  }
  if (next_reference_ != message_.references.size()) {
    fail(std::to_string(message_.references.size() - next_reference_) + " references are left over");
  }
}

void InputArchive::throw_truncated(std::size_t size) const {
  fail(std::to_string(size) + " more bytes are needed, but only " + std::to_string(left()) + " are left");
}

void InputArchive::throw_count(uint64_t value) const {
  fail("a count of " + std::to_string(value) + " elements, but only " + std::to_string(left()) + " bytes are left");
}

void InputArchive::fail(const std::string& what) const {
  std::ostringstream out;
  out << "cannot read ";
  if (type_ == nullptr) {
    out << (index_ == 0 ? "the result" : "the arguments");
  } else if (index_ == 0) {
    out << "the result (" << type_name(*type_) << ')';
  } else {
    out << "argument " << index_ << " (" << type_name(*type_) << ')';
  }
  if (function_ != nullptr) out << " of " << function_;
  out << " at byte " << position() << " of " << message_.payload.size() << ": " << what;
  throw MessageError(out.str());
}

}  // namespace tendril::rpc
