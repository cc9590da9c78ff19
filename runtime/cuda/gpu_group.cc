#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/gpu_group.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/nccl_remotes.h"
#include "meshwork/runtime/exec/gather_values.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

using Way = CudaBackendOptions::Way;

constexpr std::string_view kGpus = "the GPUs";

// The name of this host, as NCCL finds it: NCCL_HOSTID tells hosts apart that have one name, such as those of
// containers.
std::string HostOfGpu() {
  if (const char* const id = std::getenv("NCCL_HOSTID"); id != nullptr) return id;
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string ToHex(const NcclUniqueId& id) {
  std::string text;
  for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

NcclUniqueId FromHex(std::string_view text) {
  NcclUniqueId id;
  for (size_t i = 0; i < sizeof(id.bytes) && 2 * i + 1 < text.size(); ++i)
    id.bytes[i] =
        static_cast<char>(std::strtol(std::string(text.substr(2 * i, 2)).c_str(), nullptr, /*base=*/16));
  return id;
}

// The facts that a domain tells the others.
struct GpuText {
  std::string where;     // "GPU 0 (NVIDIA H200)"
  int architecture = 0;  // 90
  std::string place;     // the same for two domains that share a GPU
  Way way = Way::kAuto;
  int nccl_version = 0;      // 0: none
  std::string why_not = {};  // it has none
  std::string group = {};    // the name of the last one, if it is there
  std::string id = {};       // for a new one; of domain 0

  std::string Encode() const {
    return nlohmann::json({{"where", where},
                           {"architecture", architecture},
                           {"place", place},
                           {"way", static_cast<int>(way)},
                           {"nccl", nccl_version},
                           {"why_not", why_not},
                           {"group", group},
                           {"id", id}})
        .dump();
  }
  static absl::StatusOr<GpuText> Decode(std::string_view text) {
    GpuText said;
    try {
      const nlohmann::json json = nlohmann::json::parse(text);
      said.where = json.at("where").get<std::string>();
      said.architecture = json.at("architecture").get<int>();
      said.place = json.at("place").get<std::string>();
      said.way = static_cast<Way>(json.at("way").get<int>());
      said.nccl_version = json.at("nccl").get<int>();
      said.why_not = json.at("why_not").get<std::string>();
      said.group = json.at("group").get<std::string>();
      said.id = json.at("id").get<std::string>();
    } catch (const nlohmann::json::exception&) {
      return absl::InternalError(fmt::format("it is asked for its GPU and says \"{}\".", text));
    }
    return said;
  }
};

absl::StatusOr<GpuText> Describe(const CudaContext& context, bool is_first, Way way,
                                 const std::shared_ptr<NcclGroup>& last) {
  const CudaApi& api = context.api();
  GpuText mine{.where = context.where(), .architecture = context.architecture(), .way = way};
  MESHWORK_ASSIGN_OR_RETURN(const std::string bus, context.GetPciBusId());
  mine.place = HostOfGpu() + " " + bus;
  if (last != nullptr) mine.group = last->name();
  if (!api.nccl_status.ok()) {
    mine.why_not = std::string(MessageOf(api.nccl_status));
    return mine;
  }
  mine.nccl_version = api.nccl_version;
  if (!is_first || way == Way::kHost) return mine;
  NcclUniqueId id;
  if (const NcclResult result = api.ncclGetUniqueId(&id); result == NcclResult::kSuccess) {
    mine.id = ToHex(id);
  } else {
    mine.nccl_version = 0;
    mine.why_not = fmt::format("NCCL makes no id: {}.", api.ncclGetErrorString(result));
  }
  return mine;
}

// The facts of all domains. Error: a domain cannot go on; says why.
absl::StatusOr<std::vector<GpuText>> AskAll(Transport& transport, const absl::StatusOr<GpuText>& mine) {
  const absl::StatusOr<std::string> text =
      mine.ok() ? absl::StatusOr<std::string>(mine->Encode()) : mine.status();
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherValues(transport, kGpus, text));
  std::vector<GpuText> said;
  for (size_t d = 0; d < all.size(); ++d) {
    absl::StatusOr<GpuText> gpu = GpuText::Decode(all[d]);
    if (!gpu.ok()) return Annotate(gpu.status(), fmt::format("Transport: domain {} failed: ", d));
    said.push_back(*std::move(gpu));
  }
  return said;
}

absl::Status CheckArchitectures(const std::vector<GpuText>& all) {
  for (size_t d = 1; d < all.size(); ++d)
    if (all[d].architecture != all[0].architecture)
      return InvalidArgument(
          "CudaBackend: domain 0 is on {} of sm_{} and domain {} on {} of sm_{}; what both compute would differ in its "
          "last bits, so take GPUs of one architecture for a mesh.",
          all[0].where, all[0].architecture, d, all[d].where, all[d].architecture);
  return absl::OkStatus();
}

// Why NCCL cannot carry their data; OK if it can.
absl::Status WhyNoNccl(const std::vector<GpuText>& all) {
  std::map<std::string, size_t> places;
  for (size_t d = 0; d < all.size(); ++d) {
    if (all[d].nccl_version == 0)
      return absl::FailedPreconditionError(
          fmt::format("CudaBackend: domain {} has no NCCL: {}", d, all[d].why_not));
    if (all[d].nccl_version != all[0].nccl_version)
      return absl::FailedPreconditionError(
          fmt::format("CudaBackend: domain 0 has NCCL {} and domain {} NCCL {}; install one version.",
                      NcclVersionToString(all[0].nccl_version), d, NcclVersionToString(all[d].nccl_version)));
    const auto [other, is_new] = places.emplace(all[d].place, d);
    if (!is_new)
      return absl::FailedPreconditionError(fmt::format(
          "CudaBackend: domains {} and {} share {}, and NCCL serves one domain on a GPU; give each a GPU of its own.",
          other->second, d, all[d].where));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CanTakeNccl(const std::vector<GpuText>& all) {
  bool must = false, must_not = false;
  for (const GpuText& gpu : all) {
    must |= gpu.way == Way::kNccl;
    must_not |= gpu.way == Way::kHost;
  }
  if (must_not && !must) return false;
  if (must_not)
    return InvalidArgument(
        "CudaBackend: some domains ask for CudaBackendOptions::way=kNccl and some for kHost; let all ask for one.");
  const absl::Status why_not = WhyNoNccl(all);
  if (must) MESHWORK_RETURN_IF_ERROR(why_not);
  return why_not.ok();
}

}  // namespace

std::shared_ptr<NcclGroup> GpuGroups::Last() {
  const std::lock_guard lock(mutex_);
  return last_.lock();
}

absl::StatusOr<std::unique_ptr<CudaRemotes>> GpuGroups::Join(
    const std::shared_ptr<const CudaContext>& context, Transport& transport, bool needs_nccl) {
  std::shared_ptr<NcclGroup> group = Last();
  if (group != nullptr && !group->Serves(transport)) group = nullptr;
  const bool is_excluded = needs_nccl && options_.way == Way::kHost;
  const absl::StatusOr<GpuText> text =
      is_excluded
          ? InvalidArgument(
                "CudaBackend: NcclAllReduce adds up by NCCL, and CudaBackendOptions::way=kHost takes the process "
                "instead; leave one of them out.")
          : Describe(*context, transport.domain() == 0, needs_nccl ? Way::kNccl : options_.way, group);
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<GpuText> all, AskAll(transport, text));
  MESHWORK_RETURN_IF_ERROR(CheckArchitectures(all));
  const absl::StatusOr<bool> takes_nccl = CanTakeNccl(all);
  if (!takes_nccl.ok()) return Annotate(takes_nccl.status(), needs_nccl ? "NcclAllReduce: " : "");
  if (!*takes_nccl) return MakeHostRemotes(context, transport);
  bool is_there = group != nullptr;
  for (const GpuText& gpu : all) is_there = is_there && gpu.group == group->name();
  if (!is_there) {
    const auto deadline = options_.deadline.count() > 0 ? options_.deadline : transport.deadline();
    MESHWORK_ASSIGN_OR_RETURN(
        group, NcclGroup::Join(context, transport, FromHex(all[0].id), {.deadline = deadline}));
    const std::lock_guard lock(mutex_);
    last_ = group;
  }
  return MakeNcclRemotes(context, std::move(group), transport);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
