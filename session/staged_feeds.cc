#include "meshwork/session/staged_feeds.h"

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"

namespace meshwork {

void StagedFeeds::Clear() {
  for (auto& [name, tensor] : tensors_) tensor.Clear();
}

absl::Status StagedFeeds::Stage(const Feeds& feeds) {
  Clear();
  if (is_on_host()) return absl::OkStatus();
  for (const auto& [name, tensor] : feeds) {
    absl::Status staged;
    try {
      staged = tensors_.try_emplace(name, memory_).first->second.Stage(tensor);
    } catch (...) {
      staged = CaughtStatus("Stage", "there is not enough memory");
    }
    if (staged.ok()) continue;
    Clear();
    return Annotate(staged, fmt::format("feed \"{}\": ", name));
  }
  return absl::OkStatus();
}

std::map<std::string, StagedTensor> StagedFeeds::AmongThem(const Feeds& feeds) const {
  std::map<std::string, StagedTensor> staged;
  for (const auto& [name, tensor] : tensors_) {
    const auto fed = feeds.find(name);
    if (fed != feeds.end() && tensor.Holds(fed->second)) staged.emplace(name, tensor);
  }
  return staged;
}

}  // namespace meshwork
