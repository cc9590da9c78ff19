// How fast the processes of a job reach each other: measured when they meet, or kept in a file from an earlier job.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/transport.h"

namespace meshwork {

// Tells the transport how fast it is (Transport::set_speed); all domains must call it. Domain 0 reads the file, in the form
// of LinkToJson (runtime/transport/measure.h). If there is none, all measure, and domain 0 writes it. Empty: it is measured
// and not kept. Errors, in all domains: the file cannot be read or written, or says no link; those of the transport.
// `where`: in front of errors of the file.
absl::Status FindSpeed(Transport& transport, const std::string& link_file, std::string_view where);

}  // namespace meshwork
