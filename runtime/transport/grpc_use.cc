#include "meshwork/runtime/transport/grpc_use.h"

#include <cstddef>

#include "meshwork/base/fork.h"
#include "meshwork/base/status.h"

namespace meshwork {

absl::Status NoGrpc(std::string_view what) {
  return absl::UnimplementedError(fmt::format(
      "{}: this build of meshwork has none; install gRPC and Gloo (libgrpc++-dev and libgloo-dev on Debian) "
      "and build again.",
      what));
}

absl::Status CheckMayUseGrpc() {
  static const ForkMark first_use;
  return first_use.Check("gRPC");
}

bool IsSameToken(std::string_view given, std::string_view token) {
  if (given.size() != token.size()) return false;
  unsigned char differ = 0;
  for (size_t i = 0; i < given.size(); ++i) differ |= static_cast<unsigned char>(given[i] ^ token[i]);
  return differ == 0;
}

}  // namespace meshwork
