#include "tendril/rpc/connect/handshake.h"

#include <span>
#include <utility>

#include "tendril/rpc/error.h"
#include "tendril/rpc/system/log.h"
#include "tendril/rpc/transport/network.h"
#include "tendril/rpc/transport/tls_context.h"

namespace tendril::rpc::detail {

namespace {
constexpr std::size_t kMaxRefusalBytes = 1024;
}

Handshake::Pending::Pending(std::string name, std::size_t most) : worker(std::move(name)), half_open(most) {}

void Handshake::Pending::note(const std::string& text) {
  if (const auto line = notes.add(text, Clock::now()))
    log(LogLevel::warn, worker, "rpc: worker '" + worker + "' refused a connection from " + *line);
}

Handshake::Handshake(Reactor& reactor, std::shared_ptr<Admission> admission, std::unique_ptr<Stream> stream, bool tcp,
                     std::string from, std::shared_ptr<Pending> pending)
    : admission_(std::move(admission)),
      stream_(reactor),
      timer_(reactor),
      tcp_(tcp),
      from_(std::move(from)),
      pending_(std::move(pending)) {
  stream_.open(std::move(stream));
}

Handshake::~Handshake() { pending_->half_open.remove(this); }

void Handshake::start() try {
  pending_->half_open.add(shared_from_this(), Clock::now());
  timer_.call_after(kHandshakeTimeout, [self = shared_from_this()] {
    self->pending_->note(self->from_ + ": no hello within 5 s");
    self->close();
  });
  auto context = tcp_ ? admission_->security() : nullptr;
  if (context) {
    return stream_.secure(std::move(context), TlsStream::Side::acceptor,
                          [self = shared_from_this()](const std::exception_ptr& error) {
                            if (error) return self->received(error);
                            self->authenticated_ = true;
                            self->expect(kHelloPrefixBytes);
                          });
  }
  TENDRIL_CHECK_AS(UsageError, !tcp_ || network().is_trusted(), "a TCP connection needs a key, this worker has none");
  authenticated_ = true;
  expect(kHelloPrefixBytes);
} catch (const std::exception& e) {  // for example, because no key exists
  fail(e.what());
}

void Handshake::close() {
  timer_.cancel();
  stream_.close();
}

/// Reads until `bytes` bytes of the hello have arrived.
void Handshake::expect(std::size_t bytes) {
  const std::size_t have = received_.size();
  received_.resize(bytes);
  stream_.read(std::span(received_).subspan(have),
               [self = shared_from_this()](const std::exception_ptr& error) { self->received(error); });
}

void Handshake::received(const std::exception_ptr& error) try {
  if (error) std::rethrow_exception(error);
  advance();
} catch (const ConnectionClosed&) {
  close();
} catch (const ConnectionFailed&) {
  close();
} catch (const std::exception& e) {
  if (admission_->is_closed()) return close();  // without a refusal: the next group may soon listen here
  fail(e.what());
}

void Handshake::advance() {
  const std::size_t size = hello_size(received_).value_or(kHelloPrefixBytes);
  if (size > received_.size()) return expect(size);
  const Hello theirs = decode_hello(received_);
  if (!stream_.peer_may_be(theirs.worker.name)) {
    throw AuthenticationError("the connecting worker's certificate does not contain its name, '" + theirs.worker.name +
                              "'");
  }
  admission_->introduced(*this, theirs);
  if (stream_.is_open()) close();
}

void Handshake::fail(const std::string& why) {
  admission_->refused("a connection from " + from_ + ": " + why);
  refuse_and_note(why, RefusalKind::usage);
}

void Handshake::refuse_and_note(const std::string& why, RefusalKind kind) {
  pending_->note(from_ + ": " + why);
  refuse(why, kind);
}

void Handshake::refuse(const std::string& why, RefusalKind kind, uint32_t session) {
  if (!stream_.is_open()) return;
  try {
    if (authenticated_) {  // otherwise OpenSSL has sent an alert
      Hello refusal = admission_->introduction({});
      refusal.refusal = why.substr(0, kMaxRefusalBytes);
      refusal.refusal_kind = kind;
      refusal.resumption.session = session;
      say(refusal);
    }
  } catch (const std::exception&) {  // the connection is closed without a refusal
  }
  stream_.close_gracefully();
  close();
}

bool Handshake::say(const Hello& hello) { return stream_.send(encode(hello)); }

std::unique_ptr<Stream> Handshake::release(bool plain) {
  timer_.cancel();
  return stream_.release(plain);
}

}  // namespace tendril::rpc::detail
