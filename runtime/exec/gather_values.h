// GatherValues: the exchange on which Agree (runtime/exec/transport.h) is built, for callers that compare values by
// rules of their own.
//
// Thread safety: the transport's thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// The value of each domain, by domain. All domains must call it; if all can go on, all return the same. Errors, in all
// domains: the error in `mine`; another domain's error, with the domain's name; those of AllGather.
absl::StatusOr<std::vector<std::string>> GatherValues(Transport& transport, std::string_view what,
                                                      const absl::StatusOr<std::string>& mine);

}  // namespace meshwork
