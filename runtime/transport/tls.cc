#include "meshwork/runtime/transport/tls.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

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

// All authorities that a system trusts take a quarter of this. There is a limit because a pipe or a device
// may never end.
constexpr size_t kMaxPemBytes = size_t{4} << 20;

// Asks nobody for a password.
int NoPassword(char*, int, int, void*) { return -1; }

Bio Over(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

absl::Status CannotReadPem(const std::string& path, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("TLS {}: cannot be read: {}; check the path, and who may read it.",
                                  Printable(path), std::generic_category().message(error)));
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  const std::unique_ptr<std::FILE, FreeBy<std::fclose>> file(std::fopen(path.c_str(), "rbe"));
  if (file == nullptr) return CannotReadPem(path, errno);
  std::string pem;
  char part[4096];
  while (const size_t count = std::fread(part, 1, sizeof(part), file.get())) {
    pem.append(part, count);
    if (pem.size() > kMaxPemBytes)
      return InvalidArgument("TLS {}: it has more than 4 MiB; name a file of certificates or of a key.",
                             Printable(path));
  }
  if (std::ferror(file.get()) != 0) return CannotReadPem(path, errno);
  return pem;
}

absl::StatusOr<Certificate> FirstCertificate(const std::string& pem, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(Over(pem).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (certificate == nullptr)
    return InvalidArgument("TLS {}: there is no certificate in PEM form in it.", Printable(path));
  return certificate;
}

std::string DayOf(const ASN1_TIME* time) {
  std::tm day = {};
  ASN1_TIME_to_tm(time, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

absl::Status CheckIsValidNow(const X509* certificate, const std::string& path) {
  const ASN1_TIME* const begins = X509_get0_notBefore(certificate);
  const ASN1_TIME* const ends = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(ends) < 0)
    return InvalidArgument(
        "TLS {}: the first certificate in it expired on {}, so nobody trusts it; take a new one.",
        Printable(path), DayOf(ends));
  if (X509_cmp_current_time(begins) > 0)
    return InvalidArgument(
        "TLS {}: the first certificate in it is valid from {} on, and nobody trusts it before; check this host's clock.",
        Printable(path), DayOf(begins));
  return absl::OkStatus();
}

// The certificates and the key, which belong together.
absl::StatusOr<std::pair<std::string, std::string>> ReadCertificateAndKey(const TlsFiles& files) {
  MESHWORK_ASSIGN_OR_RETURN(std::string pem, ReadPem(files.certificate));
  MESHWORK_ASSIGN_OR_RETURN(std::string key_pem, ReadPem(files.key));
  MESHWORK_ASSIGN_OR_RETURN(const Certificate certificate, FirstCertificate(pem, files.certificate));
  MESHWORK_RETURN_IF_ERROR(CheckIsValidNow(certificate.get(), files.certificate));
  const PrivateKey key(PEM_read_bio_PrivateKey(Over(key_pem).get(), nullptr, NoPassword, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr)
    return InvalidArgument("TLS {}: there is no private key in PEM form, without a password, in it.",
                           Printable(files.key));
  if (!fits)
    return InvalidArgument("TLS {}: it is the key of another certificate than the first one in {}.",
                           Printable(files.key), Printable(files.certificate));
  return std::pair(std::move(pem), std::move(key_pem));
}

absl::StatusOr<std::string> ReadAuthorities(const std::string& path) {
  MESHWORK_ASSIGN_OR_RETURN(std::string pem, ReadPem(path));
  MESHWORK_RETURN_IF_ERROR(FirstCertificate(pem, path).status());
  return pem;
}

}  // namespace

TlsFiles TlsFilesOf(const Environment& environment) {
  return {.certificate = environment("MESHWORK_TLS_CERTIFICATE").value_or(""),
          .key = environment("MESHWORK_TLS_KEY").value_or(""),
          .authorities = environment("MESHWORK_TLS_AUTHORITIES").value_or(""),
          .client_authorities = environment("MESHWORK_TLS_CLIENT_AUTHORITIES").value_or("")};
}

absl::StatusOr<ServerPem> ReadServerPem(const TlsFiles& files) {
  if (files.certificate.empty() || files.key.empty())
    return InvalidArgument(
        "TLS: a server has the certificate \"{}\" and the key \"{}\"; it needs files of both, by "
        "MESHWORK_TLS_CERTIFICATE and MESHWORK_TLS_KEY or by TlsFiles. Where nothing of TLS is named, it speaks plain text.",
        files.certificate, files.key);
  ServerPem pem;
  MESHWORK_ASSIGN_OR_RETURN(std::tie(pem.certificate, pem.key), ReadCertificateAndKey(files));
  if (!files.client_authorities.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(pem.client_authorities, ReadAuthorities(files.client_authorities));
  }
  return pem;
}

absl::StatusOr<ClientPem> ReadClientPem(const TlsFiles& files) {
  if (files.authorities.empty())
    return InvalidArgument(
        "TLS: a client has the certificate \"{}\" and no authorities, so it would give the token to whoever answers; name "
        "the file of those that it trusts, by MESHWORK_TLS_AUTHORITIES or TlsFiles::authorities.",
        files.certificate);
  if (files.certificate.empty() != files.key.empty())
    return InvalidArgument(
        "TLS: a client has the certificate \"{}\" and the key \"{}\"; it needs files of both, or of none if servers ask "
        "for no certificate.",
        files.certificate, files.key);
  ClientPem pem;
  MESHWORK_ASSIGN_OR_RETURN(pem.authorities, ReadAuthorities(files.authorities));
  if (!files.certificate.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(std::tie(pem.certificate, pem.key), ReadCertificateAndKey(files));
  }
  return pem;
}

}  // namespace meshwork
