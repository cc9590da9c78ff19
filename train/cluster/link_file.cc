#include "meshwork/train/cluster/link_file.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/transport/measure.h"

namespace meshwork {

absl::Status FindSpeed(Transport& transport, const std::string& link_file, std::string_view where) {
  // All processes use what the first one reads.
  const bool has_file = transport.domain() == 0 && !link_file.empty();
  absl::StatusOr<std::string> mine = "";
  absl::Status status;
  std::error_code unknown;  // reading says what is wrong
  if (has_file &&
      std::filesystem::status(link_file, unknown).type() != std::filesystem::file_type::not_found) {
    mine = ReadFile(link_file);
    status = mine.ok() ? LinkFromJson(*mine).status() : mine.status();
  }
  const auto agree = [&](const absl::Status& access) {
    if (access.ok()) return Agree(transport, "the link's file", "there");
    return Agree(transport, "the link's file", Annotate(access, where));
  };
  MESHWORK_RETURN_IF_ERROR(agree(status));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all, transport.AllGather("the link", *mine));
  if (!all[0].empty()) {
    MESHWORK_ASSIGN_OR_RETURN(const Link known, LinkFromJson(all[0]));
    transport.set_speed(known);
    return absl::OkStatus();
  }
  MESHWORK_ASSIGN_OR_RETURN(const Link measured, MeasureLink(transport));
  transport.set_speed(measured);
  return agree(has_file ? WriteFileAtomically(link_file, LinkToJson(measured) + "\n") : absl::OkStatus());
}

}  // namespace meshwork
