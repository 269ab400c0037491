#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "tendril/rpc/tls_credentials.h"

namespace rpc_test {

/// A temporary folder for freshly made certificates. The destructor removes it.
class Certificates {
 public:
  Certificates() {
    char name[] = "/tmp/tendril_tls_test_XXXXXX";
    BOOST_REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Certificates() { std::filesystem::remove_all(path_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  const std::string& path() const noexcept { return path_; }

  class Authority {
   public:
    Authority(const Certificates& folder, const std::string& name)
        : folder_(folder), name_(name), key_(make_key()), certificate_(make(name, key_.get(), true, 3600)) {
      sign(certificate_.get(), certificate_.get());
      folder_.write_certificate(certificate_.get(), name);
    }

    struct Issued {
      long valid_for_s = 3600;         ///< negative: it expired that long ago
      const char* password = nullptr;  ///< encrypts the key's file
      const char* extended_use = nullptr;
      const char* names = nullptr;  ///< the subjectAltName, for example "DNS:a,DNS:b"
    };
    /// Issues a certificate and its key, in files with this name.
    tendril::rpc::TlsFiles issue(const std::string& name) const { return issue(name, {}); }
    tendril::rpc::TlsFiles issue(const std::string& name, const Issued& how) const {
      const Key key = make_key();
      const Certificate certificate = make(name, key.get(), false, how.valid_for_s);
      if (how.extended_use != nullptr) extend(certificate.get(), NID_ext_key_usage, how.extended_use);
      if (how.names != nullptr) extend(certificate.get(), NID_subject_alt_name, how.names);
      sign(certificate.get(), certificate_.get());
      folder_.write_certificate(certificate.get(), name);
      folder_.write_key(key.get(), name, how.password);
      return {.certificate = folder_.path_ + "/" + name + ".pem",
              .private_key = folder_.path_ + "/" + name + ".key",
              .authority = folder_.path_ + "/" + name_ + ".pem"};
    }
    tendril::rpc::TlsCredentials member(const std::string& name) const {
      return tendril::rpc::TlsCredentials::from_files(issue(name));
    }

   private:
    using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
    using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

    static Key make_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

    Certificate make(const std::string& name, EVP_PKEY* key, bool authority, long valid_for_s) const {
      Certificate made(X509_new(), &X509_free);
      X509_set_version(made.get(), 2);
      static long serial = 0;
      ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial);
      X509_gmtime_adj(X509_getm_notBefore(made.get()), -7200);
      X509_gmtime_adj(X509_getm_notAfter(made.get()), valid_for_s);
      X509_set_pubkey(made.get(), key);
      X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
      extend(made.get(), NID_basic_constraints, authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
      return made;
    }
    static void extend(X509* certificate, int what, const char* value) {
      const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
          X509V3_EXT_conf_nid(nullptr, nullptr, what, value), &X509_EXTENSION_free);
      BOOST_REQUIRE(X509_add_ext(certificate, extension.get(), -1) == 1);
    }
    void sign(X509* certificate, const X509* issuer) const {
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
      BOOST_REQUIRE(X509_sign(certificate, key_.get(), EVP_sha256()) > 0);
    }

    const Certificates& folder_;
    const std::string name_;
    const Key key_;
    const Certificate certificate_;
  };

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  void write_certificate(X509* certificate, const std::string& name) const {
    const File file(std::fopen((path_ + "/" + name + ".pem").c_str(), "w"), &std::fclose);
    BOOST_REQUIRE((file && PEM_write_X509(file.get(), certificate) == 1));
  }
  void write_key(EVP_PKEY* key, const std::string& name, const char* password) const {
    const std::string where = path_ + "/" + name + ".key";
    const File file(std::fopen(where.c_str(), "w"), &std::fclose);
    BOOST_REQUIRE((file && PEM_write_PrivateKey(file.get(), key, password != nullptr ? EVP_aes_128_cbc() : nullptr,
                                                nullptr, 0, nullptr, const_cast<char*>(password)) == 1));
    BOOST_REQUIRE(::chmod(where.c_str(), 0600) == 0);
  }

  std::string path_;
};

}  // namespace rpc_test
