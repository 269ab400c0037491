#include "tendril/nn/utils/summary_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <vector>

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

/// A packed field.
Message& reals(Message& to, int field, const std::vector<double>& values) {
  return to.bytes(field, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
}

/// PyTorch's "tensorflow" bins: their limits from -1e20 to 1e20, each a tenth further from 0 than the one before.
const std::vector<double>& histogram_limits() {
  static const auto limits = [] {
    std::vector<double> made;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) made.push_back(limit);
    std::vector<double> all(made.rbegin(), made.rend());
    for (double& limit : all) limit = -limit;
    all.push_back(0);
    all.insert(all.end(), made.begin(), made.end());
    return all;
  }();
  return limits;
}

uint32_t big_endian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint32_t>(bytes[i]);
  return value;
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

/// As numpy.histogram counts, and as PyTorch cuts off what is empty: a bucket is known by its upper limit, so an empty
/// one says where the first begins.
void SummaryWriter::add_histogram(std::string_view tag, const Tensor& values, int64_t step,
                                  std::optional<double> wall_time) {
  tendril::detail::check_defined(values, "SummaryWriter::add_histogram", "values");
  std::vector<double> numbers = values.to_vector<double>();
  std::erase_if(numbers, [](double x) { return !std::isfinite(x); });
  const auto& limits = histogram_limits();
  std::vector<double> counts(limits.size() - 1);
  double sum = 0, squares = 0;
  for (const double x : numbers) {
    sum += x;
    squares += x * x;
    if (x < limits.front() || x > limits.back()) continue;
    const auto above = static_cast<std::size_t>(std::ranges::upper_bound(limits, x) - limits.begin());
    ++counts[std::min(above, counts.size()) - 1];
  }
  const auto occurs = [](double count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, occurs) - counts.begin();
  const auto last = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), occurs);  // one past it
  TENDRIL_CHECK(last > 0, "SummaryWriter::add_histogram: values: got none that is finite and within +-1e20, of ",
                values.numel());
  std::vector<double> buckets(counts.begin() + first, counts.begin() + last);
  buckets.insert(buckets.begin(), 0);
  const std::vector<double> ends(limits.begin() + first, limits.begin() + last + 1);
  const auto [least, most] = std::ranges::minmax(numbers);
  Message histogram;
  histogram.real64(1, least).real64(2, most).real64(3, static_cast<double>(numbers.size())).real64(4, sum);
  histogram.real64(5, squares);
  reals(reals(histogram, 6, ends), 7, buckets);
  write(event(step, wall_time, Message().bytes(1, tag).message(5, histogram)).view());
}

void SummaryWriter::add_image(std::string_view tag, std::span<const std::byte> png, int64_t step,
                              std::optional<double> wall_time) {
  constexpr std::string_view kBegin("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  constexpr std::array<uint64_t, 7> kChannels{1, 0, 3, 3, 2, 0, 4};  // by PNG's colour type; a palette is of RGB
  const std::string_view bytes(reinterpret_cast<const char*>(png.data()), png.size());
  TENDRIL_CHECK(bytes.size() >= 33 && bytes.substr(0, 16) == kBegin, "SummaryWriter::add_image: png: got ",
                bytes.size(), " bytes that are no PNG file");
  const auto type = static_cast<std::size_t>(png[25]);
  const uint64_t channels = type < kChannels.size() ? kChannels[type] : 0;
  const uint32_t width = big_endian(png.subspan(16)), height = big_endian(png.subspan(20));
  TENDRIL_CHECK(channels > 0 && width > 0 && height > 0, "SummaryWriter::add_image: png: got ", width, " x ", height,
                " pixels of colour type ", type, ", which no PNG file has");
  Message image;
  image.varint(1, height).varint(2, width).varint(3, channels).bytes(4, bytes);
  write(event(step, wall_time, Message().bytes(1, tag).message(4, image)).view());
}

void SummaryWriter::flush() {
  const std::lock_guard lock(mutex_);
  check_whole();
  failed_ = std::fflush(file_.get()) != 0;
  if (failed_) fail("write", path_, std::strerror(errno));
}

void SummaryWriter::check_whole() const {
  TENDRIL_CHECK(!failed_, "SummaryWriter: ", path_,
                ": an earlier write failed, and nothing behind it could be read; "
                "go on with another writer");
}

/// A record of TFRecord files: length, its checksum, bytes, their checksum.
void SummaryWriter::write(std::string_view event) {
  std::string record;
  append<uint64_t>(record, event.size());
  append(record, masked_crc(record));
  record += event;
  append(record, masked_crc(event));
  const std::lock_guard lock(mutex_);
  check_whole();
  failed_ = std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size();
  if (failed_) fail("write", path_, std::strerror(errno));
}

}  // namespace tendril::nn::utils
