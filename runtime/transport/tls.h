// TLS of the rendezvous and of parameter servers: the files that it takes, and functions that read and check them.
// Their errors say what is wrong with a file; gRPC would only log it.
//
//   const TlsFiles tls{.certificate = "server.pem", .key = "server.key", .authorities = "ca.pem"};
//   const TlsFiles same = TlsFilesOf(ProcessEnvironment());   // MESHWORK_TLS_CERTIFICATE=server.pem …
//
// Files are read when a server starts and when a client is made; a renewed file is used from the next start on.
//
// Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/mesh/cluster.h"

namespace meshwork {

// Files in PEM form. One TlsFiles may serve all processes of a job. A process that has any of them speaks no plain
// text: a server without a certificate and a client without authorities are errors.
struct TlsFiles {
  // The certificates of this process, its own first, and the private key of its own. A server needs them. A client that
  // has them shows them to a server that asks.
  std::string certificate = {}, key = {};
  // For clients, which need them: the certificates of the authorities that a client trusts. The server's certificate
  // must name the host by which the client calls the server.
  std::string authorities = {};
  // For servers: only clients whose certificate one of these authorities has signed may call the server (mutual TLS).
  // Empty: the server asks for no certificate.
  std::string client_authorities = {};

  // Whether any file is named.
  bool any() const {
    return !certificate.empty() || !key.empty() || !authorities.empty() || !client_authorities.empty();
  }
};

// MESHWORK_TLS_CERTIFICATE, MESHWORK_TLS_KEY, MESHWORK_TLS_AUTHORITIES and MESHWORK_TLS_CLIENT_AUTHORITIES.
TlsFiles TlsFilesOf(const Environment& environment);

struct ServerPem {
  std::string certificate, key;
  std::string client_authorities;  // empty: none
};
struct ClientPem {
  std::string authorities;
  std::string certificate, key;  // empty: none
};

// The files that a server needs. Errors: no certificate or no key is named; a file cannot be read, or has more than 4
// MiB; there is no certificate or no key in it; the key is another certificate's; the certificate has expired, or is
// not valid yet.
absl::StatusOr<ServerPem> ReadServerPem(const TlsFiles& files);
// The files that a client needs. Errors: no authorities are named; a certificate is named without its key, or a key
// alone; the errors of files that ReadServerPem has.
absl::StatusOr<ClientPem> ReadClientPem(const TlsFiles& files);

}  // namespace meshwork
