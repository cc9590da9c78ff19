#include "meshwork/parameter_server/rpc/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "meshwork/base/status.h"
#include "meshwork/storage/file.h"

namespace meshwork {
namespace {

template <auto free_it>
struct FreeBy {
  template <typename T>
  void operator()(T* object) const {
    free_it(object);
  }
};
using Bio = std::unique_ptr<BIO, FreeBy<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, FreeBy<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;

// Nobody is asked for one.
int NoPassword(char*, int, int, void*) { return -1; }

Bio Over(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

absl::StatusOr<Certificate> FirstCertificate(const std::string& pem, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(Over(pem).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (certificate == nullptr)
    return InvalidArgument("TLS {}: there is no certificate in PEM form in it.", path);
  return certificate;
}

}  // namespace

absl::StatusOr<ServerPem> ReadServerPem(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty())
    return InvalidArgument(
        "TLS: a server has the certificate \"{}\" and the key \"{}\"; it needs files of both, or none to speak no TLS.",
        files.certificate, files.key);
  ServerPem pem;
  MESHWORK_ASSIGN_OR_RETURN(pem.certificate, ReadFile(files.certificate));
  MESHWORK_ASSIGN_OR_RETURN(pem.key, ReadFile(files.key));
  MESHWORK_ASSIGN_OR_RETURN(const Certificate certificate,
                            FirstCertificate(pem.certificate, files.certificate));
  const PrivateKey key(PEM_read_bio_PrivateKey(Over(pem.key).get(), nullptr, NoPassword, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr)
    return InvalidArgument("TLS {}: there is no private key in PEM form, without a password, in it.",
                           files.key);
  if (!fits)
    return InvalidArgument("TLS {}: it is the key of another certificate than the first one in {}.",
                           files.key, files.certificate);
  return pem;
}

absl::StatusOr<std::string> ReadAuthorities(const TlsFiles& files) {
  MESHWORK_ASSIGN_OR_RETURN(std::string pem, ReadFile(files.authorities));
  MESHWORK_RETURN_IF_ERROR(FirstCertificate(pem, files.authorities).status());
  return pem;
}

}  // namespace meshwork
