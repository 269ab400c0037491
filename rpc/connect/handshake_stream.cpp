#include "tendril/rpc/connect/handshake_stream.h"

#include <array>
#include <cerrno>
#include <utility>

#include "tendril/rpc/system/log.h"

namespace tendril::rpc::detail {

namespace {

std::exception_ptr connection_failed(int error) { return std::make_exception_ptr(ConnectionFailed(error)); }

}  // namespace

/// Runs the pending step when the stream becomes readable or writable. Each change is reported once, so a step must
/// try to read or write before it waits.
class HandshakeStream::Readiness final : public Reactor::Watched {
 public:
  using Step = std::function<void()>;

  explicit Readiness(Reactor& reactor) : reactor_(reactor) {}

  void wait(Step step) { step_ = std::move(step); }
  bool ready(uint32_t) override {
    if (!step_) return false;
    std::exchange(step_, nullptr)();
    return !step_;  // a step that waits again found nothing to do
  }
  void failed(std::exception_ptr error) noexcept override {
    try {
      std::rethrow_exception(std::move(error));
    } catch (const std::exception& e) {
      log(LogLevel::error, "", e.what());
    } catch (...) {
    }
  }
  /// The step may own the HandshakeStream, whose destructor calls `end`.
  void reactor_ends() noexcept override {
    over_ = true;
    const Step dropped = std::exchange(step_, nullptr);
  }
  /// Destroys the pending step later, because the step may own the caller.
  void end() {
    over_ = true;
    if (step_) reactor_.post([dropped = std::exchange(step_, nullptr)] {});
  }
  bool over() const noexcept { return over_; }

 private:
  Reactor& reactor_;
  Step step_;
  bool over_ = false;
};

void HandshakeStream::open(std::unique_ptr<Stream> stream) {
  close();
  auto readiness = std::make_shared<Readiness>(reactor_);
  reactor_.watch(stream->descriptor(), readiness);
  readiness_ = std::move(readiness);
  descriptor_ = stream->descriptor();
  stream_ = std::move(stream);
}

void HandshakeStream::stop_watching() noexcept {
  if (!readiness_) return;
  reactor_.unwatch(descriptor_);
  std::exchange(readiness_, nullptr)->end();
  tls_ = nullptr;
}

void HandshakeStream::close() noexcept {
  stop_watching();
  stream_.reset();
}

void HandshakeStream::close_gracefully() noexcept {
  if (!stream_) return;
  stream_->end_writing();
  if (tls_ != nullptr) {  // OpenSSL reads nothing more after an error
    stream_ = tls_->give_back();
    tls_ = nullptr;
  }
  std::array<char, 4096> unread;
  const iovec all{unread.data(), unread.size()};
  for (int i = 0; i < 16 && stream_->read(&all, 1) > 0; ++i) {
  }
  close();
}

std::unique_ptr<Stream> HandshakeStream::release(bool plain) noexcept {
  if (tls_ != nullptr && !plain) tls_->read_ahead();
  std::unique_ptr<Stream> stream = tls_ != nullptr && plain ? tls_->give_back() : nullptr;
  stop_watching();
  if (!stream) return std::move(stream_);
  stream_.reset();
  return stream;
}

bool HandshakeStream::peer_may_be(const std::string& worker) const {
  return tls_ == nullptr || tls_->peer_may_be(worker);
}

bool HandshakeStream::peer_closed() noexcept {
  std::byte first{};
  return stream_->peek(first) == 0;
}

void HandshakeStream::later(Done done, std::exception_ptr error) {
  reactor_.post([done = std::move(done), error = std::move(error), readiness = readiness_] {
    if (!readiness->over()) done(error);
  });
}

void HandshakeStream::wait_connected(Done done) {
  readiness_->wait([this, done = std::move(done)] {
    const int error = stream_->connection_error();
    if (error == 0) reactor_.stop_watching_writing(descriptor_);
    done(error == 0 ? nullptr : connection_failed(error));
  });
  reactor_.watch_writing(descriptor_);
}

void HandshakeStream::secure(std::shared_ptr<const TlsContext> context, TlsStream::Side side, Done done) {
  try {
    auto tls = std::make_unique<TlsStream>(std::move(context), std::move(stream_), side);
    tls_ = tls.get();
    stream_ = std::move(tls);
  } catch (...) {
    close();  // the underlying stream was destroyed, too
    throw;
  }
  go_on_securing(std::move(done));
}

void HandshakeStream::go_on_securing(Done done) {
  try {
    const TlsStream::Progress progress = tls_->handshake();
    if (progress == TlsStream::Progress::done) return later(std::move(done));
    if (progress == TlsStream::Progress::closed)
      return later(std::move(done), std::make_exception_ptr(ConnectionClosed()));
    readiness_->wait([this, done = std::move(done)] { go_on_securing(done); });
    if (progress == TlsStream::Progress::wait_to_write) {
      reactor_.watch_writing(descriptor_);
    } else {
      reactor_.stop_watching_writing(descriptor_);
    }
  } catch (...) {
    later(std::move(done), std::current_exception());
  }
}

void HandshakeStream::read(std::span<std::byte> to, Done done) { go_on_reading(to, std::move(done)); }

void HandshakeStream::go_on_reading(std::span<std::byte> to, Done done) {
  while (!to.empty()) {
    const iovec rest{to.data(), to.size()};
    const ssize_t n = stream_->read(&rest, 1);
    if (n == 0) return later(std::move(done), std::make_exception_ptr(ConnectionClosed()));
    if (n > 0) {
      to = to.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return readiness_->wait([this, to, done = std::move(done)] { go_on_reading(to, done); });
    } else if (errno == EACCES && tls_ != nullptr) {
      return later(std::move(done), std::make_exception_ptr(AuthenticationError(stream_->describe(errno))));
    } else if (errno != EINTR) {
      return later(std::move(done), connection_failed(errno));
    }
  }
  later(std::move(done));
}

bool HandshakeStream::send(std::span<const std::byte> bytes) noexcept {
  const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return stream_->write(&all, 1) == static_cast<ssize_t>(bytes.size());
}

}  // namespace tendril::rpc::detail
