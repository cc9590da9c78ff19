#include "meshwork/session/load_weights.h"

#include <string_view>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/session/weight_plan.h"
#include "meshwork/session/without_exceptions.h"
#include "meshwork/storage/fill_blocks.h"
#include "meshwork/storage/hashed_json.h"
#include "meshwork/storage/weight_files.h"

namespace meshwork {
namespace {

constexpr std::string_view kToLoad = "the weights to load";

absl::StatusOr<WeightPlan> PlanOf(const Session& session, const absl::StatusOr<WeightFiles>& files,
                                  const LoadWeightsOptions& options) {
  MESHWORK_RETURN_IF_ERROR(files.status());
  std::vector<std::string> left_out;
  MESHWORK_ASSIGN_OR_RETURN(const auto variables,
                            WeightsOf(session.graph(), options.also, options.only, "LoadWeights", &left_out));
  return PlanWeights(*files, variables, left_out, options);
}

// OK if all domains have made the same plan.
absl::Status AgreeOn(const absl::StatusOr<WeightPlan>& plan, Transport* transport) {
  if (!plan.ok() || transport == nullptr) return AllAgree(transport, kToLoad, plan.status());
  const std::string text = plan->ToString();
  return Agree(*transport, kToLoad, Sha256OfText(text), [&] { return text; });
}

absl::StatusOr<Tensor> ReadWeight(const PlannedWeight& weight, const Block& box) {
  const Block in = weight.InTensor(box);
  Tensor tensor({weight.entry.type.dtype, SizesOf(in)});
  MESHWORK_RETURN_IF_ERROR(tensor.status());
  MESHWORK_RETURN_IF_ERROR(
      weight.file->ReadBox(weight.entry, in, BoxBuffer::OfBox(in), static_cast<std::byte*>(tensor.raw())));
  return weight.is_transposed() ? tensor.Transposed(weight.dims) : tensor;
}

absl::StatusOr<LoadedWeights> Load(const Session& session, const std::string& path,
                                   const LoadWeightsOptions& options) {
  DomainState here = session.Here();
  const absl::StatusOr<WeightFiles> files = WeightFiles::Open(path);
  absl::StatusOr<WeightPlan> plan = PlanOf(session, files, options);
  MESHWORK_RETURN_IF_ERROR(AgreeOn(plan, here.transport));
  LoadedWeights loaded{.kept = std::move(plan->kept), .unused = std::move(plan->unused)};
  std::vector<BlocksToFill> to_fill;
  for (const PlannedWeight& weight : plan->weights) {
    loaded.variables.push_back(weight.variable);
    to_fill.push_back({.to = here.variables.at(weight.variable),
                       .read = [&weight](const Block& box) { return ReadWeight(weight, box); },
                       .order = Inverse(weight.dims)});
  }
  MESHWORK_RETURN_IF_ERROR(AllAgree(here.transport, kToLoad, FillBlocks(to_fill)));
  loaded.bytes_read = files->bytes_read();
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedWeights> LoadWeights(Session& session, const std::string& path,
                                          const LoadWeightsOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const OneCaller::Call call, session.Begin("LoadWeights"));
  return WithoutExceptions(session.Here().transport, [&] { return Load(session, path, options); });
}

}  // namespace meshwork
