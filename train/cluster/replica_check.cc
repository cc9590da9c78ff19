#include "meshwork/train/cluster/replica_check.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/gather_values.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

constexpr size_t kMostNames = 5, kMostDevices = 8;  // in a message

// ---- What this domain holds.

// A variable that has replicas.
struct Replicated {
  std::string name;
  DTensor tensor;
  AxisList apart;  // axes between domains that cut it: domains with the same coordinates hold the same blocks
  std::vector<uint64_t> hashes;  // by instance
};

AxisList AxesApart(const DTensor& tensor) {
  AxisSet apart;
  for (int axis : tensor.domain().placement().across().ToList())
    if (tensor.layout().ShardedAxes().Contains(axis)) apart.Add(axis);
  return apart.ToList();
}

// Whether another domain has the same blocks, or this one has them twice.
bool HasReplicas(const DTensor& tensor) {
  const AxisSet sharded = tensor.layout().ShardedAxes();
  return !tensor.domain().placement().across().Minus(sharded).empty() ||
         !tensor.instances().axes().Minus(sharded).empty();
}

// Devices with one number hold the same block.
int64_t BlockOf(const DTensor& tensor, int64_t device) {
  return AxisGroup(tensor.layout().mesh(), tensor.layout().ShardedAxes().ToList()).RankOf(device);
}

// The hash of the elements of an instance, without padding.
absl::StatusOr<uint64_t> HashOfInstance(const DTensor& tensor, int64_t instance) {
  const Block block = tensor.block(instance);
  const BoxBuffer buffer =
      BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, tensor.instances().Representative(instance));
  const BoxCopy elements(block, buffer, buffer);
  const int64_t size = DTypeSize(tensor.type().dtype);
  const std::byte* data = tensor.instance(instance);
  Tensor copy;
  if (!tensor.memory().is_host()) {
    copy = Tensor(tensor.local_type());
    MESHWORK_RETURN_IF_ERROR(
        tensor.memory().Download(elements, size, data, static_cast<std::byte*>(copy.raw())));
    data = static_cast<const std::byte*>(copy.raw());
  }
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  if (hash == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash.get());
  elements.ForRuns(0, elements.elements(), [&](int64_t start, int64_t, int64_t count) {
    XXH3_64bits_update(hash.get(), data + start * size, static_cast<size_t>(count * size));
  });
  return XXH3_64bits_digest(hash.get());
}

uint64_t HashOf(const std::vector<uint64_t>& words) {
  return XXH3_64bits(words.data(), words.size() * sizeof(uint64_t));
}

absl::StatusOr<std::vector<Replicated>> HashAll(const std::map<std::string, DTensor>& variables) {
  std::vector<Replicated> replicated;
  for (const auto& [name, tensor] : variables) {
    if (!HasReplicas(tensor)) continue;
    Replicated& variable = replicated.emplace_back(Replicated{name, tensor, AxesApart(tensor), {}});
    for (int64_t i = 0; i < tensor.instances().count(); ++i) {
      absl::StatusOr<uint64_t> hash = HashOfInstance(tensor, i);
      if (!hash.ok()) return Annotate(hash.status(), fmt::format("Replicas: variable \"{}\": ", name));
      variable.hashes.push_back(*hash);
    }
  }
  return replicated;
}

// Whether two instances of one block differ in this domain.
bool DiffersHere(const Replicated& variable) {
  std::map<int64_t, uint64_t> first;  // by block
  for (size_t i = 0; i < variable.hashes.size(); ++i) {
    const int64_t device = variable.tensor.instances().Representative(static_cast<int64_t>(i));
    if (first.emplace(BlockOf(variable.tensor, device), variable.hashes[i]).first->second !=
        variable.hashes[i])
      return true;
  }
  return false;
}

// ---- What the domains tell each other: numbers of 8 bytes.

void Append(std::string& text, uint64_t word) {
  text.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

uint64_t WordAt(std::string_view text, size_t index) {
  uint64_t word;
  std::memcpy(&word, text.data() + index * sizeof(word), sizeof(word));
  return word;
}

// The question that all domains must check alike.
uint64_t HashOfQuestion(const std::map<std::string, DTensor>& variables, int64_t step) {
  std::vector<uint64_t> facts = {static_cast<uint64_t>(step)};
  for (const auto& [name, tensor] : variables)
    facts.push_back(StableHash(fmt::format("{}: {} {} on {}, {}", name, tensor.type().ToString(),
                                           tensor.layout().ToString(), tensor.layout().mesh().ToString(),
                                           fmt::join(tensor.instances().varying().ToList(), " "))));
  return HashOf(facts);
}

// Variables that lie alike between domains.
struct Kind {
  std::vector<uint64_t> hashes = {};  // of all of them
  bool differs_here = false;
};

using Kinds = std::map<AxisList, Kind>;

Kinds KindsOf(const std::vector<Replicated>& replicated) {
  Kinds kinds;
  for (const Replicated& variable : replicated) {
    Kind& kind = kinds[variable.apart];
    kind.hashes.insert(kind.hashes.end(), variable.hashes.begin(), variable.hashes.end());
    kind.differs_here |= DiffersHere(variable);
  }
  return kinds;
}

// The texts of all domains, which are `size` long, after this domain's status; one text if there is one domain.
absl::StatusOr<std::vector<std::string>> Gather(Transport* transport, std::string_view what,
                                                const absl::StatusOr<std::string>& mine) {
  if (transport == nullptr) {
    MESHWORK_RETURN_IF_ERROR(mine.status());
    return std::vector<std::string>{*mine};
  }
  return GatherValues(*transport, what, mine);
}

// The kinds of which two replicas differ. All domains find the same ones.
absl::StatusOr<std::vector<AxisList>> FindKinds(const Placement& placement, const Kinds& kinds,
                                                const std::vector<std::string>& texts, int64_t step) {
  for (size_t d = 1; d < texts.size(); ++d) {
    if (texts[d].size() == texts[0].size() && WordAt(texts[d], 0) == WordAt(texts[0], 0)) continue;
    return InvalidArgument(
        "Replicas: domains 0 and {} do not check the same at step {}; all domains check the variables of one program, "
        "after the same step.",
        d, step);
  }
  std::vector<AxisList> found;
  size_t word = 1;
  for (const auto& [apart, kind] : kinds) {
    const AxisGroup coordinates(placement.mesh(), apart);
    std::map<int64_t, uint64_t> first;
    bool differs = false;
    for (size_t d = 0; d < texts.size(); ++d) {
      const int64_t place = coordinates.RankOf(placement.FirstDevice(static_cast<int64_t>(d)));
      const uint64_t hash = WordAt(texts[d], word);
      differs |= first.emplace(place, hash).first->second != hash || WordAt(texts[d], word + 1) != 0;
    }
    if (differs) found.push_back(apart);
    word += 2;
  }
  return found;
}

// ---- What differs.

// Devices of one domain that hold a block with this hash.
struct Holders {
  int64_t domain;
  std::vector<int64_t> devices;  // ascending
  int64_t replicas = 1;          // how many buffers that are
};
using ByHash = std::map<uint64_t, std::vector<Holders>>;

// "device 3", "devices 0-3", "devices 0, 2, 4, …"
std::string DevicesToString(const std::vector<int64_t>& devices) {
  if (devices.size() == 1) return fmt::format("device {}", devices[0]);
  if (devices.back() - devices[0] + 1 == std::ssize(devices))
    return fmt::format("devices {}-{}", devices[0], devices.back());
  const auto end = devices.begin() + static_cast<int64_t>(std::min(devices.size(), kMostDevices));
  return fmt::format("devices {}{}", fmt::join(devices.begin(), end, ", "),
                     end == devices.end() ? "" : ", …");
}

// The first block of a variable of which replicas differ: its holders, by hash; nothing if there is none. `hashes`: of
// the variable, by domain.
ByHash FindDifference(const DTensor& tensor, const std::vector<std::vector<uint64_t>>& hashes) {
  std::map<int64_t, ByHash> blocks;
  for (size_t d = 0; d < hashes.size(); ++d) {
    const Domain domain(tensor.domain().placement(), static_cast<int64_t>(d));
    const InstanceMap instances(domain, tensor.instances().varying());
    for (int64_t device = domain.first_device(); device < domain.first_device() + domain.num_devices();
         ++device) {
      const int64_t instance = instances.Of(device);
      std::vector<Holders>& holders =
          blocks[BlockOf(tensor, device)][hashes[d][static_cast<size_t>(instance)]];
      if (holders.empty() || holders.back().domain != domain.index())
        holders.push_back({domain.index(), {}, 0});
      holders.back().devices.push_back(device);
      holders.back().replicas += instances.Representative(instance) == device ? 1 : 0;
    }
  }
  for (auto& [block, by_hash] : blocks)
    if (by_hash.size() > 1) return std::move(by_hash);
  return {};
}

int64_t CountReplicas(const std::vector<Holders>& holders) {
  int64_t count = 0;
  for (const Holders& some : holders) count += some.replicas;
  return count;
}

// "devices 0-3 of worker 0 on host-a hold 5f3a…, devices 4-7 of worker 1 on host-b hold 77c0…"; devices that hold what
// most hold are only counted.
std::string HoldersToString(const ByHash& by_hash, const std::vector<std::string>& names) {
  int64_t all = 0;
  for (const auto& [hash, holders] : by_hash) all += CountReplicas(holders);
  std::vector<std::pair<int64_t, std::string>> texts;  // by first device
  std::string most;
  for (const auto& [hash, holders] : by_hash) {
    if (const int64_t count = CountReplicas(holders); count > 1 && 2 * count > all) {
      most = fmt::format("the other {} replicas hold {:016x}", count, hash);
      continue;
    }
    std::vector<std::string> who;
    for (const Holders& some : holders)
      who.push_back(
          fmt::format("{} of {}", DevicesToString(some.devices), names[static_cast<size_t>(some.domain)]));
    const bool is_one = holders.size() == 1 && holders[0].devices.size() == 1;
    texts.emplace_back(holders[0].devices[0], fmt::format("{} {} {:016x}", fmt::join(who, " and "),
                                                          is_one ? "holds" : "hold", hash));
  }
  std::sort(texts.begin(), texts.end());
  std::vector<std::string> parts;
  for (auto& [device, text] : texts) parts.push_back(std::move(text));
  if (!most.empty()) parts.push_back(std::move(most));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "", or " (\"b1\" and \"w2\" differ, too)"
std::string AlsoDiffer(const std::vector<std::string>& others) {
  if (others.empty()) return "";
  std::vector<std::string> quoted;
  for (size_t i = 0; i < std::min(others.size(), kMostNames); ++i)
    quoted.push_back(fmt::format("\"{}\"", others[i]));
  if (others.size() > kMostNames) quoted.push_back(Count(std::ssize(others) - std::ssize(quoted), "other"));
  return fmt::format(", as {} {}", others.size() == 1 ? "does" : "do", fmt::join(quoted, ", "));
}

// Asks all domains for the hashes of the variables of these kinds, and says what differs.
absl::Status Explain(const std::vector<Replicated>& replicated, const std::vector<AxisList>& kinds,
                     int64_t step, Transport* transport, const std::string& name) {
  std::vector<const Replicated*> asked;
  std::string mine;
  for (const Replicated& variable : replicated) {
    if (std::find(kinds.begin(), kinds.end(), variable.apart) == kinds.end()) continue;
    asked.push_back(&variable);
    for (uint64_t hash : variable.hashes) Append(mine, hash);
  }
  const size_t bytes = mine.size();
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                            Gather(transport, "the replicas that differ", mine + name));
  std::vector<std::string> names, differing;
  for (const std::string& text : texts) names.push_back(text.substr(bytes));
  ByHash first;
  const Replicated* subject = nullptr;
  size_t word = 0;
  for (const Replicated* variable : asked) {
    std::vector<std::vector<uint64_t>> hashes(texts.size());
    for (size_t d = 0; d < texts.size(); ++d)
      for (size_t i = 0; i < variable->hashes.size(); ++i) hashes[d].push_back(WordAt(texts[d], word + i));
    word += variable->hashes.size();
    ByHash difference = FindDifference(variable->tensor, hashes);
    if (difference.empty()) continue;
    differing.push_back(variable->name);
    if (subject != nullptr) continue;
    subject = variable;
    first = std::move(difference);
  }
  MESHWORK_CHECK(subject != nullptr);
  differing.erase(differing.begin());
  const DTensor& tensor = subject->tensor;
  return absl::DataLossError(fmt::format(
      "Replicas: variable \"{}\", {} {} on {}, differs at step {}{}: {}; memory may be bad, or a kernel may not give the "
      "same bits everywhere; go on from the checkpoint before.",
      subject->name, tensor.type().ToString(), tensor.layout().ToString(), tensor.layout().mesh().ToString(),
      step, AlsoDiffer(differing), HoldersToString(first, names)));
}

}  // namespace

absl::Status CheckReplicas(const std::map<std::string, DTensor>& variables, int64_t step,
                           Transport* transport, std::string_view name) {
  const Placement placement =
      variables.empty() ? Placement() : variables.begin()->second.domain().placement();
  for (const auto& [variable, tensor] : variables)
    MESHWORK_CHECK(tensor.domain().placement() == placement, "{}", variable);
  absl::StatusOr<std::vector<Replicated>> replicated = HashAll(variables);
  Kinds kinds;
  absl::StatusOr<std::string> mine = "";
  if (!replicated.ok()) {
    mine = replicated.status();
  } else {
    kinds = KindsOf(*replicated);
    Append(*mine, HashOfQuestion(variables, step));
    for (const auto& [apart, kind] : kinds) {
      Append(*mine, HashOf(kind.hashes));
      Append(*mine, kind.differs_here ? 1 : 0);
    }
  }
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, Gather(transport, "the replicas", mine));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<AxisList> found, FindKinds(placement, kinds, texts, step));
  if (found.empty()) return absl::OkStatus();
  const int64_t domain = transport == nullptr ? 0 : transport->domain();
  return Explain(*replicated, found, step, transport,
                 name.empty() ? NamesOf(std::vector<int64_t>{domain}) : std::string(name));
}

absl::StatusOr<ReplicaCheck> ReplicaCheck::Create(ReplicaCheckOptions options) {
  absl::StatusOr<std::string> mine = fmt::format("every={}", options.every);
  if (options.every < 0)
    mine =
        InvalidArgument("Replicas: every is {}; it is a number of steps, or 0 for no checks.", options.every);
  if (options.transport == nullptr) MESHWORK_RETURN_IF_ERROR(mine.status());
  else MESHWORK_RETURN_IF_ERROR(Agree(*options.transport, "the check of replicas", mine));
  return ReplicaCheck(std::move(options));
}

absl::StatusOr<ReplicaCheck> ReplicaCheck::Create(const Processes& processes, int64_t every) {
  return Create({.every = every, .transport = processes.transport(), .name = processes.Name()});
}

absl::Status ReplicaCheck::AfterStep(int64_t step, const Session& session) const {
  if (options_.every == 0 || step % options_.every != 0) return absl::OkStatus();
  return CheckReplicas(session.State(), step, options_.transport, options_.name);
}

absl::StatusOr<int64_t> ParseReplicaCheck(std::string_view text) {
  constexpr std::string_view kEvery = "every=";
  if (text == "off") return 0;
  int64_t steps = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with(kEvery)) {
    const auto [last, error] = std::from_chars(text.data() + kEvery.size(), end, steps);
    if (error == std::errc() && last == end && steps > 0) return steps;
  }
  return InvalidArgument(
      "--check-replicas: \"{}\" is neither \"off\" nor \"every=\" and a number of steps, as in every=100.",
      text);
}

}  // namespace meshwork
