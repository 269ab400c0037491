#include "tendril/nn/utils/summary_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tendril/tensor/error.h"

namespace tendril::nn::utils {
namespace {

/// Little-endian, as both formats below have it.
template <class T>
void append(std::string& to, T value) {
  static_assert(std::endian::native == std::endian::little);
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// A message of Protocol Buffers: fields one after the other, each led by its number and the kind of what follows
/// (protobuf.dev/programming-guides/encoding). The messages are TensorFlow's event.proto and summary.proto.
class Message {
 public:
  Message& varint(int field, uint64_t value) { return key(field, 0).number(value); }
  Message& real64(int field, double value) { return key(field, 1).plain(value); }
  Message& real32(int field, float value) { return key(field, 5).plain(value); }
  Message& bytes(int field, std::string_view value) {
    key(field, 2).number(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  std::string_view view() const { return bytes_; }

 private:
  Message& key(int field, uint64_t kind) { return number(static_cast<uint64_t>(field) << 3 | kind); }
  Message& number(uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  template <class T>
  Message& plain(T value) {
    append(bytes_, value);
    return *this;
  }
  std::string bytes_;
};

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Message event(int64_t step, std::optional<double> wall_time, const Message& value) {
  Message all;
  all.real64(1, wall_time ? *wall_time : now()).varint(2, static_cast<uint64_t>(step));
  return all.message(5, Message().message(1, value));
}

/// CRC-32C (Castagnoli, reversed polynomial 0x82f63b78), masked as TensorFlow's record files have it.
uint32_t masked_crc(std::string_view bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < made.size(); ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
      made[i] = crc;
    }
    return made;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, const std::string& why) {
  throw Error("SummaryWriter: cannot " + what + " " + path.string() + ": " + why);
}

/// TensorBoard reads files whose names have "tfevents" in them, in order of their names.
std::string file_name() {
  static std::atomic<int> count{0};
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') std::strcpy(host, "localhost");
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%010lld", static_cast<long long>(now()));
  return std::string("events.out.tfevents.") + seconds + "." + host + "." + std::to_string(::getpid()) + "." +
         std::to_string(count++);
}

}  // namespace

SummaryWriter::SummaryWriter(const std::filesystem::path& log_dir) : path_(log_dir / file_name()) {
  std::error_code error;
  std::filesystem::create_directories(log_dir, error);
  if (error) fail("make the folder", log_dir, error.message());
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) file_.reset(::fdopen(descriptor, "wb"));
  if (!file_) fail("make", path_, std::strerror(errno));
  write(Message().real64(1, now()).bytes(3, "brain.Event:2").view());
  flush();
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::add_scalar(std::string_view tag, double value, int64_t step, std::optional<double> wall_time) {
  const Message summary = Message().bytes(1, tag).real32(2, static_cast<float>(value));
  write(event(step, wall_time, summary).view());
}

void SummaryWriter::add_text(std::string_view tag, std::string_view text, int64_t step,
                             std::optional<double> wall_time) {
  constexpr uint64_t kString = 7;  // DT_STRING of types.proto
  const Message plugin = Message().message(1, Message().bytes(1, "text"));
  const Message shape = Message().message(2, Message().varint(1, 1));
  const Message tensor = Message().varint(1, kString).message(2, shape).bytes(8, text);
  const Message summary = Message().bytes(1, std::string(tag) + "/text_summary").message(8, tensor).message(9, plugin);
  write(event(step, wall_time, summary).view());
}

void SummaryWriter::flush() {
  const std::lock_guard lock(mutex_);
  if (std::fflush(file_.get()) != 0) fail("write", path_, std::strerror(errno));
}

/// A record of TFRecord files: length, its checksum, bytes, their checksum.
void SummaryWriter::write(std::string_view event) {
  std::string record;
  append<uint64_t>(record, event.size());
  append(record, masked_crc(record));
  record += event;
  append(record, masked_crc(event));
  const std::lock_guard lock(mutex_);
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size())
    fail("write", path_, std::strerror(errno));
}

}  // namespace tendril::nn::utils
