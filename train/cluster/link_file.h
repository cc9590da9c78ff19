// The speed of the link between the processes of a job: measured when they meet, or read from a file of an earlier job.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// Sets the transport's speed (Transport::set_speed); all domains must call it. Domain 0 reads the file, in the form of
// LinkToJson (runtime/transport/measure.h). If there is no file, all domains measure the link, and domain 0 writes it.
// If `link_file` is empty, the link is measured and not kept. Errors, in all domains: the file cannot be read or
// written, or says no link; those of the transport. `where`: in front of errors of the file.
absl::Status FindSpeed(Transport& transport, const std::string& link_file, std::string_view where);

}  // namespace meshwork
