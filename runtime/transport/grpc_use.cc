#include "meshwork/runtime/transport/grpc_use.h"

#include <cstddef>

#include "meshwork/base/fork.h"

namespace meshwork {

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
