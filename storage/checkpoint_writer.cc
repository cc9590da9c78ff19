#include "meshwork/storage/checkpoint_writer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/safetensors.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks(5);

// The file of the partial checkpoint in which a domain reports its shard, or its error, to domain 0.
std::string NotePath(const std::string& folder, int64_t domain) {
  return fmt::format("{}/shard-{:05}.json", folder, domain);
}

absl::Status WriteNote(const std::string& folder, int64_t domain,
                       const absl::StatusOr<CheckpointShard>& shard) {
  nlohmann::ordered_json json;
  if (shard.ok()) json = {{"bytes", shard->bytes}, {"sha256", shard->sha256}};
  else json = {{"error", std::string(MessageOf(shard.status()))}};
  return WriteFileAtomically(NotePath(folder, domain),
                             json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

// NOT_FOUND: it is not there yet.
absl::StatusOr<CheckpointShard> ReadNote(const std::string& folder, int64_t domain, const std::string& file) {
  const std::string path = NotePath(folder, domain);
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, path));
  const JsonReader note(json, path);
  if (note.Has("error")) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader error, note.Get("error"));
    MESHWORK_ASSIGN_OR_RETURN(const std::string message, error.String());
    return absl::UnavailableError(fmt::format("domain {}: {}", domain, message));
  }
  CheckpointShard shard{.file = file};
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader bytes, note.Get("bytes"));
  MESHWORK_ASSIGN_OR_RETURN(shard.bytes, bytes.Integer());
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader sha256, note.Get("sha256"));
  MESHWORK_ASSIGN_OR_RETURN(shard.sha256, sha256.String());
  return shard;
}

// Copies the part `written` of `tensor` to `to`, which is dense and has the part's shape.
absl::Status CopyPart(const DTensor& tensor, const WrittenPart& written, Tensor& to) {
  const BoxBuffer from = BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, written.device);
  BoxBuffer dense;
  for (const Extent& extent : written.part.factors) {
    dense.start.push_back(extent.start);
    dense.shape.push_back(extent.size);
  }
  return tensor.memory().Download(BoxCopy(written.part.factors, from, dense), DTypeSize(tensor.type().dtype),
                                  tensor.instance(tensor.instances().Of(written.device)),
                                  static_cast<std::byte*>(to.raw()));
}

Type TypeOfBox(DType dtype, const Block& box) {
  Type type{dtype, {}};
  for (const Extent& extent : box) type.shape.push_back(extent.size);
  return type;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Open(
    const CheckpointWriterOptions& options) {
  if (options.dir.empty()) return InvalidArgument("CheckpointWriter: dir is empty; it names a folder.");
  if (options.keep < 1)
    return InvalidArgument("CheckpointWriter: keep is {}; at least the newest checkpoint stays.",
                           options.keep);
  MESHWORK_CHECK(0 <= options.domain && options.domain < options.num_domains);
  MESHWORK_CHECK(options.job.find('/') == std::string::npos);
  std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(options));
  if (options.domain == 0) {
    MESHWORK_ASSIGN_OR_RETURN(writer->lock_, CheckpointLock::Take(options.dir));
    RemoveLeftovers(options.dir, options.job, 0);
  }
  return writer;
}

CheckpointWriter::~CheckpointWriter() {
  if (!made_.is_here())
    new std::thread(std::move(thread_));  // the parent's: neither to be joined nor to be detached
  else if (thread_.joinable()) thread_.join();
}

absl::Status CheckpointWriter::Begin(const CheckpointNote& note,
                                     const std::map<std::string, DTensor>& variables) {
  MESHWORK_CHECK(note.step >= 0);
  MESHWORK_RETURN_IF_ERROR(made_.Check("CheckpointWriter"));
  absl::Status status = Wait();
  partial_ = fmt::format("{}/{}", options_.dir, PartialName(options_.job, ++begun_));
  if (status.ok()) {
    try {
      status = BeginOwn(note, variables);
    } catch (...) {
      places_.clear();  // the plan may be there in part
      is_writing_ = false;
      status = CaughtStatus("Checkpoint", "there is not enough memory");
    }
  }
  // Domain 0 would wait for this one.
  if (!status.ok() && options_.domain != 0 && MakeFolders(partial_).ok())
    WriteNote(partial_, options_.domain, status).IgnoreError();
  return status;
}

absl::Status CheckpointWriter::BeginOwn(const CheckpointNote& note,
                                        const std::map<std::string, DTensor>& variables) {
  Plan(variables);
  MESHWORK_RETURN_IF_ERROR(Copy(variables));
  index_.step = note.step;
  index_.mesh = placement_.mesh().ToString();
  Stamp(index_);
  index_.facts = note.facts;
  index_.metrics = note.metrics;
  index_.shards.clear();
  is_writing_ = true;
  thread_ = std::thread([this] {
    try {
      status_ = Write();
    } catch (...) {
      status_ = CaughtStatus("Checkpoint", "there is not enough memory");
    }
    is_writing_ = false;
  });
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Wait() {
  MESHWORK_RETURN_IF_ERROR(made_.Check("CheckpointWriter"));
  if (thread_.joinable()) thread_.join();
  return std::exchange(status_, absl::OkStatus());
}

void CheckpointWriter::Plan(const std::map<std::string, DTensor>& variables) {
  const Placement placement =
      variables.empty() ? Placement() : variables.begin()->second.domain().placement();
  MESHWORK_CHECK(variables.empty() || placement.num_domains() == options_.num_domains);
  bool is_same = placement == placement_ && variables.size() == places_.size();
  for (const auto& [name, tensor] : variables) {
    if (!is_same) break;
    const auto place = places_.find(name);
    is_same = place != places_.end() && place->second.type == tensor.type() &&
              place->second.layout.ToString() == tensor.layout().ToString();
  }
  if (is_same) return;
  placement_ = placement;
  places_.clear();
  for (const auto& [name, tensor] : variables) places_[name] = {tensor.type(), tensor.layout()};
  plan_ = PlanParts(placement_, places_);
  tensors_.clear();
  index_.variables.clear();
  for (const auto& [name, parts] : plan_) {
    const VariablePlace& place = places_.at(name);
    CheckpointVariable& variable = index_.variables.emplace_back();
    variable.name = name;
    variable.type = place.type;
    variable.layout = place.layout.ToString();
    for (const WrittenPart& part : parts) {
      variable.pieces.push_back({part.domain, part.part.box});
      if (part.domain != options_.domain) continue;
      tensors_.emplace_back(PieceName(variable, part.part.box),
                            Tensor(TypeOfBox(place.type.dtype, part.part.box)));
    }
  }
}

absl::Status CheckpointWriter::Copy(const std::map<std::string, DTensor>& variables) {
  size_t next = 0;
  for (const auto& [name, parts] : plan_)
    for (const WrittenPart& part : parts)
      if (part.domain == options_.domain)
        MESHWORK_RETURN_IF_ERROR(CopyPart(variables.at(name), part, tensors_[next++].second));
  return absl::OkStatus();
}

// ---- By the thread that writes.

absl::Status CheckpointWriter::Write() {
  if (options_.domain != 0) {
    const absl::StatusOr<CheckpointShard> shard = WriteShard();
    const absl::Status noted = WriteNote(partial_, options_.domain, shard);
    return shard.ok() ? noted : shard.status();
  }
  absl::Status status = KeepLock();
  // The names of folders must be on the disk before the leftovers of failed writes are removed.
  if (status.ok()) status = FlushFolder(options_.dir);
  if (status.ok()) {
    RemoveLeftovers(options_.dir, options_.job, begun_);
    status = Complete();
    if (!status.ok()) {
      std::error_code ignored;
      std::filesystem::remove_all(partial_, ignored);
    }
  }
  if (status.ok()) status = KeepLock();  // that took a while
  if (status.ok()) status = PublishCheckpoint(partial_, options_.dir, index_.step);
  if (status.ok()) RemoveOld();
  return Annotate(status, fmt::format("Checkpoint of step {}: ", index_.step));
}

absl::Status CheckpointWriter::KeepLock() {
  if (lock_->IsHeld()) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(lock_, CheckpointLock::Take(options_.dir));
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Complete() {
  MESHWORK_ASSIGN_OR_RETURN(CheckpointShard own, WriteShard());
  MESHWORK_ASSIGN_OR_RETURN(index_.shards, AwaitShards(std::move(own)));
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, ToJson(index_));
  MESHWORK_RETURN_IF_ERROR(WriteFileAtomically(partial_ + "/index.json", text));
  return ReadCheckpointIndex(partial_).status();  // as it will be read
}

absl::StatusOr<CheckpointShard> CheckpointWriter::WriteShard() {
  MESHWORK_RETURN_IF_ERROR(MakeFolders(partial_));
  CheckpointShard shard{.file = ShardName(options_.domain, options_.num_domains)};
  MESHWORK_ASSIGN_OR_RETURN(const WrittenFile written,
                            WriteSafetensorsHashed(fmt::format("{}/{}", partial_, shard.file), tensors_));
  shard.bytes = written.bytes;
  shard.sha256 = written.sha256;
  return shard;
}

absl::StatusOr<std::vector<CheckpointShard>> CheckpointWriter::AwaitShards(CheckpointShard own) {
  const auto start = std::chrono::steady_clock::now();
  auto end = start + options_.deadline;
  std::vector<CheckpointShard> shards = {std::move(own)};
  while (std::ssize(shards) < options_.num_domains) {
    const int64_t domain = std::ssize(shards);
    absl::StatusOr<CheckpointShard> shard =
        ReadNote(partial_, domain, ShardName(domain, options_.num_domains));
    if (shard.ok()) {
      shards.push_back(*std::move(shard));
      continue;
    }
    if (shard.status().code() != absl::StatusCode::kNotFound) return shard.status();
    const auto now = std::chrono::steady_clock::now();
    if (is_abandoned_.exchange(false)) end = std::min(end, now + kGrace);
    if (now > end)
      return absl::DeadlineExceededError(fmt::format(
          "domain {} has not written its shard within {} ms; all processes must see the folder {}.", domain,
          std::chrono::duration_cast<std::chrono::milliseconds>(end - start).count(), options_.dir));
    std::this_thread::sleep_for(kBetweenLooks);
  }
  std::error_code ignored;
  for (int64_t domain = 1; domain < options_.num_domains; ++domain)
    std::filesystem::remove(NotePath(partial_, domain), ignored);
  return shards;
}

namespace {

// Whether nobody can use this checkpoint. Checkpoints that cannot be read at the moment, or only by a newer library,
// may be of use; a folder without an index was not written here.
bool IsDamaged(const FoundCheckpoint& checkpoint) {
  const absl::StatusCode code = checkpoint.index.status().code();
  std::error_code ignored;
  return (code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kDataLoss ||
          code == absl::StatusCode::kNotFound) &&
         std::filesystem::exists(checkpoint.path + "/index.json", ignored);
}

}  // namespace

// If a checkpoint cannot be removed, this is tried again after the next one.
void CheckpointWriter::RemoveOld() const {
  const absl::StatusOr<std::vector<FoundCheckpoint>> found = ListCheckpoints(options_.dir);
  if (!found.ok()) return;
  std::vector<const FoundCheckpoint*> old;
  const FoundCheckpoint* best = nullptr;
  double best_value = 0;
  int64_t kept = 0;
  for (const FoundCheckpoint& checkpoint : *found) {
    // Checkpoints of later steps are left from before the training was set back to an earlier step.
    if (checkpoint.step > index_.step) continue;
    if (kept == options_.keep && (checkpoint.index.ok() || IsDamaged(checkpoint))) old.push_back(&checkpoint);
    if (!checkpoint.index.ok()) continue;
    kept = std::min(kept + 1, options_.keep);
    const auto metric = checkpoint.index->metrics.find(options_.best_metric);
    if (metric == checkpoint.index->metrics.end()) continue;
    const double value = options_.lowest_is_best ? metric->second : -metric->second;
    if (best == nullptr || value < best_value) best = &checkpoint, best_value = value;
  }
  for (const FoundCheckpoint* checkpoint : old)
    if (checkpoint != best) RemoveCheckpoint(checkpoint->path).IgnoreError();
}

}  // namespace meshwork
