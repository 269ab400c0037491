// The file has Chrome's trace format, which Perfetto reads: one JSON object with one event per line. A worker that
// leaves can therefore add its events to those of other workers, and the partial event of a killed worker can be cut
// off. The path may come from the environment, so files other than traces are never changed, and symbolic links are not
// followed.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "tendril/rpc/call/function.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/system/thread.h"
#include "tendril/rpc/system/unique_fd.h"
#include "tendril/rpc/threads/trace.h"
#include "tendril/rpc/wire/wire.h"
#include "tendril/tensor/detail/json_text.h"

namespace tendril::rpc::detail {
namespace {

constexpr std::string_view kBeginning = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"run\":";  // of every trace
constexpr std::string_view kTrailer = "\n]}\n";
constexpr std::chrono::seconds kFileTime{10};

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// Converts nanoseconds to the format's microseconds.
std::string microseconds_of(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
  return text;
}

std::string hex(uint64_t id) {
  char text[24];
  std::snprintf(text, sizeof text, "\"0x%llx\"", static_cast<unsigned long long>(id));
  return text;
}

/// The events of one worker, one per line.
class Events {
 public:
  Events(WorkerInfo self, const ClockFit& clock) : pid_(self.id), self_(std::move(self)), clock_(clock) {}

  void metadata(const char* name, int tid, const std::string& args) {
    begin(name, "M", tid);
    text_ += ",\"args\":{" + args + "}}";
  }
  void span(const TraceSpan& span, int tid) {
    const std::string& function = name(span);
    switch (span.kind) {
      case TraceSpan::Kind::send:
        slice("call " + function, span, tid, "\"to\":" + std::to_string(span.peer));
        flow("s", "", span.start_ns, span.span_id, tid);
        break;
      case TraceSpan::Kind::handler:
        slice(function, span, tid, "\"from\":" + std::to_string(span.peer));
        flow("f", ",\"bp\":\"e\"", span.start_ns, span.span_id, tid);
        break;
      case TraceSpan::Kind::call:
        asynchronous(function + " on rank " + std::to_string(span.peer), "call", span, tid);
        break;
      case TraceSpan::Kind::deferred:
        asynchronous(function + " for rank " + std::to_string(span.peer), "deferred", span, tid);
        break;
      case TraceSpan::Kind::pass:
        asynchronous(function, "backward", span, tid);
        break;
      case TraceSpan::Kind::graph:
        slice("run the graph of " + function, span, tid, "\"root\":" + std::to_string(span.peer), "backward");
        break;
      case TraceSpan::Kind::walk:
        slice("mark for " + function, span, tid, "\"root\":" + std::to_string(span.peer), "backward");
        break;
      case TraceSpan::Kind::lead:
        begin_slice("lead", span, tid, "loop");
        text_ += "}";
        break;
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, const char* phase, int tid) {
    if (!text_.empty()) text_ += ",\n";
    text_ += "{\"name\":" + json_string(name) + ",\"ph\":\"" + phase + "\",\"pid\":" + std::to_string(pid_) +
             ",\"tid\":" + std::to_string(tid);
  }
  void time(const char* key, int64_t ns) { text_ += std::string(",\"") + key + "\":" + microseconds_of(ns); }
  void begin_slice(std::string_view name, const TraceSpan& span, int tid, const char* category) {
    begin(name, "X", tid);
    const int64_t start = clock_.to_rank_0(span.start_ns);
    time("ts", start);
    time("dur", std::max<int64_t>(clock_.to_rank_0(span.end_ns) - start, 0));
    text_ += std::string(",\"cat\":\"") + category + "\"";
  }
  void slice(const std::string& name, const TraceSpan& span, int tid, const std::string& args,
             const char* category = "rpc") {
    begin_slice(name, span, tid, category);
    text_ += ",\"args\":{" + args + ",\"trace\":" + hex(span.trace_id) + ",\"span\":" + hex(span.span_id) +
             ",\"parent\":" + hex(span.parent) + "}}";
  }
  void flow(const char* phase, const char* more, int64_t at, uint64_t id, int tid) {
    begin("call", phase, tid);
    time("ts", clock_.to_rank_0(at));
    text_ += ",\"cat\":\"rpc\",\"id\":" + hex(id) + more + "}";
  }
  void asynchronous(const std::string& name, const char* category, const TraceSpan& span, int tid) {
    for (const bool first : {true, false}) {
      begin(name, first ? "b" : "e", tid);
      time("ts", clock_.to_rank_0(first ? span.start_ns : span.end_ns));
      text_ += std::string(",\"cat\":\"") + category + "\",\"id\":" + hex(span.span_id);
      if (first) text_ += std::string(",\"args\":{\"failed\":") + (span.failed ? "true" : "false") + "}";
      text_ += "}";
    }
  }
  const std::string& name(const TraceSpan& span) {
    std::string& name = names_[span.function];
    if (name.empty())
      name = span.kind < TraceSpan::Kind::pass
                 ? name_of_function(span.function)
                 : "backward " + std::to_string(span.function) + " of rank " + std::to_string(span.peer);
    return name;
  }

  const WorkerId pid_;
  const WorkerInfo self_;
  const ClockFit& clock_;
  std::string text_;
  std::unordered_map<uint64_t, std::string> names_;
};

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(path);
  return status;
}

/// Whether the path still names this file.
bool is_at(const struct stat& file, const std::string& path) {
  struct stat there {};
  return ::lstat(path.c_str(), &there) == 0 && there.st_dev == file.st_dev && there.st_ino == file.st_ino;
}

/// Throws UsageError unless the file is empty, a trace, or the beginning of one (left by a killed worker).
void check_is_trace(int fd, const struct stat& status, const std::string& path) {
  TENDRIL_CHECK_AS(UsageError, S_ISREG(status.st_mode), path, " is not a regular file");
  std::string beginning(kBeginning.size(), '\0');
  const ssize_t n = ::pread(fd, beginning.data(), beginning.size(), 0);
  if (n < 0) throw_errno(path);
  beginning.resize(static_cast<std::size_t>(n));
  TENDRIL_CHECK_AS(UsageError, kBeginning.starts_with(beginning), path, " is not a trace, and is not overwritten");
}

/// Returns no descriptor if the file does not exist.
UniqueFd open_existing(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file && errno == ENOENT) return file;
  TENDRIL_CHECK_AS(UsageError, file || errno != ELOOP, path, " is a symbolic link, expected a regular file");
  if (!file) throw_errno(path);
  check_is_trace(file.get(), status_of(file.get(), path), path);
  return file;
}

UniqueFd open_or_make(const std::string& path) {
  for (;;) {
    if (UniqueFd file = open_existing(path)) return file;
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file) return file;
    if (errno != EEXIST) throw_errno(path);
  }
}

/// Atomically replaces the file by one with this text. Returns false if the directory does not permit new files.
bool replace(const std::string& path, mode_t mode, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file && (errno == EACCES || errno == EPERM || errno == EROFS)) return false;
  if (!file) throw_errno(temporary);
  try {
    write_all(file.get(), text, temporary);
    if (::fchmod(file.get(), mode & 0777) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) throw_errno(path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  return true;
}

void lock_file(int fd, const std::string& path) {
  const Clock::time_point deadline = Clock::now() + kFileTime;
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) throw_errno(path);
    if (Clock::now() >= deadline) throw TimeoutError(path + " is locked by another process");
    sleep_for(std::chrono::milliseconds(5));
  }
}

/// Whether the text, which begins like an event, is a whole event: a truncated event has not closed its first brace.
bool is_whole_event(std::string_view text) {
  return text.ends_with('}') && tendril::detail::scan_json(text, [](char, int) {}) == 0;
}

/// Returns the offset after the last whole event of a file of this run, or 0 if the file is of another run. A worker
/// that was killed while it wrote may have left the beginning of an event or of the trailer there.
off_t end_of_events(int fd, std::string_view header, off_t size) {
  std::string tail(header.size(), '\0');
  if (::pread(fd, tail.data(), tail.size(), 0) != static_cast<ssize_t>(tail.size()) || tail != header) return 0;
  const off_t from = std::max<off_t>(static_cast<off_t>(header.size()), size - (off_t{64} << 10));
  tail.resize(static_cast<std::size_t>(size - from));
  if (::pread(fd, tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size())) return 0;
  std::string_view text = tail;
  if (text.ends_with(kTrailer)) return size - static_cast<off_t>(kTrailer.size());
  for (std::size_t n = kTrailer.size() - 1; n > 0; --n) {
    if (!text.ends_with(kTrailer.substr(0, n))) continue;
    text.remove_suffix(n);
    break;
  }
  if (text.ends_with(',')) text.remove_suffix(1);
  const std::size_t before = text.rfind(",\n");  // no event has a line break
  if (is_whole_event(text.substr(before == text.npos ? 0 : before + 2))) return from + static_cast<off_t>(text.size());
  return before == text.npos ? static_cast<off_t>(header.size()) : from + static_cast<off_t>(before);
}

}  // namespace

std::string Trace::events(const ClockFit& clock) const {
  Events events(self_, clock);
  const std::vector<Thread> all = threads();
  std::size_t spans = 0;
  for (const Thread& thread : all) spans += thread.spans.size();
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string error = std::to_string(clock.error_ns());
  events.metadata("process_name", 0, "\"name\":" + json_string(name_of(self_)));
  events.metadata("process_labels", 0, "\"labels\":" + json_string("clock within " + error + " ns of rank 0's"));
  events.metadata("process_sort_index", 0, "\"sort_index\":" + std::to_string(self_.id));
  events.metadata("tendril_worker", 0,
                  "\"worker\":" + json_string(self_.name) + ",\"rank\":" + std::to_string(self_.id) +
                      ",\"process\":" + std::to_string(::getpid()) + ",\"host\":" + json_string(host) +
                      ",\"clock_offset_ns\":" + std::to_string(clock.first.offset_ns) + ",\"clock_error_ns\":" + error +
                      ",\"spans\":" + std::to_string(spans) + ",\"dropped\":" + std::to_string(dropped()));
  for (const Thread& thread : all) {
    events.metadata("thread_name", thread.id, "\"name\":" + json_string(thread.name));
    for (const TraceSpan& span : thread.spans) events.span(span, thread.id);
  }
  return events.take();
}

void Trace::write(const std::string& group, const ClockFit& clock) const {
  // Not the group's id itself, which is for its members only.
  const std::string run = hex(crc32c(std::as_bytes(std::span(group))));
  const std::string header = std::string(kBeginning) + run + "},\"traceEvents\":[\n";
  std::string text = events(clock);
  text += kTrailer;
  for (;;) {
    const UniqueFd file = open_or_make(path_);
    lock_file(file.get(), path_);
    const struct stat status = status_of(file.get(), path_);
    if (!is_at(status, path_)) continue;  // replaced by another worker while this one waited
    check_is_trace(file.get(), status, path_);
    const off_t end = end_of_events(file.get(), header, status.st_size);
    if (end == 0 && status.st_size > 0 && replace(path_, status.st_mode, header + text)) return;
    if (::ftruncate(file.get(), end) != 0 || ::lseek(file.get(), end, SEEK_SET) < 0) throw_errno(path_);
    write_all(file.get(), end == 0 ? header : end == static_cast<off_t>(header.size()) ? "" : ",\n", path_);
    return write_all(file.get(), text, path_);
  }
}

void check_trace_path(const std::string& path) {
  if (open_existing(path)) return;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) throw_errno(path);
}

}  // namespace tendril::rpc::detail
