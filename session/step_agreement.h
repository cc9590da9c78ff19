// StepAgreement: what the caller of a session's steps says to the other domains along with each step. Session asks it
// before a step instead of the transport. DataAgreement (train/fit/data_agreement.h) is one.
//
// Thread safety: the session's thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace meshwork {

class StepAgreement {
 public:
  virtual ~StepAgreement() = default;
  // Whether all domains can take this step. `mine`: why this one cannot. `step`: "a step of 32 rows". Errors, in all
  // domains: `mine`; that of another domain; what differs between domains.
  virtual absl::Status Agree(const absl::Status& mine, const std::string& step) = 0;
};

}  // namespace meshwork
