// The files of TLS, read and looked at: what is wrong with them is said here, where gRPC would only log it.
//
// Thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "meshwork/parameter_server/rpc/options.h"

namespace meshwork {

struct ServerPem {
  std::string certificate, key;
};

// Errors: a file cannot be read; there is no certificate or no key in it; the key is another certificate's.
absl::StatusOr<ServerPem> ReadServerPem(const TlsFiles& files);
// Errors: the file cannot be read; there is no certificate in it.
absl::StatusOr<std::string> ReadAuthorities(const TlsFiles& files);

}  // namespace meshwork
