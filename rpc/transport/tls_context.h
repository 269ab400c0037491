#pragma once

#include <boost/asio/ssl/context.hpp>

namespace tendril::rpc::detail {

/// What all of a worker's connections under TLS have in common.
class TlsContext {
 public:
  boost::asio::ssl::context context{boost::asio::ssl::context::tls};
};

}  // namespace tendril::rpc::detail
