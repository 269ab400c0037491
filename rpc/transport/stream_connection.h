#pragma once

#include <memory>

#include "tendril/rpc/transport/tls_stream.h"
#include "tendril/rpc/transport/unique_fd.h"

namespace tendril::rpc::detail {

/// A connected stream socket over which both sides have introduced themselves.
struct StreamConnection {
  UniqueFd socket;
  bool tcp = false;
  std::unique_ptr<TlsStream> tls = {};  ///< over `socket`; null: it is plain

  const char* transport() const noexcept { return tls ? "tls" : tcp ? "tcp" : "unix"; }
};

}  // namespace tendril::rpc::detail
