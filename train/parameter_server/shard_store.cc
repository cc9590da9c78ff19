#include "meshwork/train/parameter_server/shard_store.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/base/utf8.h"
#include "meshwork/train/parameter_server/mean_of_pushes.h"

namespace meshwork {
namespace {

absl::Status CheckOptions(const TrainingSplit& split, const ShardStoreOptions& options) {
  const auto servers = std::ssize(split.servers);
  if (options.server < 0 || options.server >= servers)
    return InvalidArgument("ShardStore: server is {}; the split has {}, so give 0 to {}.", options.server,
                           Count(servers, "server"), servers - 1);
  if (options.max_staleness.value_or(0) < 0)
    return InvalidArgument("ShardStore: max_staleness is {}; give 0 or more updates.",
                           *options.max_staleness);
  if (options.gather < 0)
    return InvalidArgument(
        "ShardStore: gather is {}; give the number of pushes that make an update, or 0 to apply each by itself.",
        options.gather);
  if (options.keep < 1)
    return InvalidArgument("ShardStore: keep is {}; give 1 or more checkpoints.", options.keep);
  if (options.gather == 0) return absl::OkStatus();
  for (const PushedRows& pushed : split.pushed)
    if (IsInteger(pushed.type.dtype))
      return InvalidArgument(
          "ShardStore: gather is {}, and the push \"{}\" is {}, which has no mean; cast what is counted to f32, or apply "
          "each push by itself.",
          options.gather, pushed.name, pushed.type.ToString());
  return absl::OkStatus();
}

template <typename T>
std::vector<std::string> NamesOf(const std::map<std::string, T>& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

std::vector<std::string> NamesOfVariables(const TrainingSplit& split) {
  std::vector<std::string> names;
  for (size_t i = 0; i < split.variables.arguments().size(); ++i)
    names.push_back(split.variables.argument_name(static_cast<int>(i)));
  return names;
}

}  // namespace

ShardStore::ShardStore(const ShardStoreOptions& options, Session session)
    : options_(options),
      session_(std::move(session)),
      state_(session_.State()),
      life_(1 + static_cast<int64_t>(std::random_device()())) {}

absl::StatusOr<std::unique_ptr<ShardStore>> ShardStore::Create(const TrainingSplit& split,
                                                               const ShardStoreOptions& asked) {
  MESHWORK_RETURN_IF_ERROR(CheckOptions(split, asked));
  ShardStoreOptions options = asked;
  // Rows are picked and put in the memory of the process.
  options.session.devices = "cpu";
  options.session.backend = nullptr;
  MESHWORK_ASSIGN_OR_RETURN(
      Session session, Session::Create(split.servers[static_cast<size_t>(options.server)], options.session));
  std::unique_ptr<ShardStore> store(new ShardStore(options, std::move(session)));
  store->num_servers_ = std::ssize(split.servers);
  for (const VariablePiece& piece : split.pieces)
    if (piece.server == options.server) store->pieces_[piece.name] = piece;
  for (const PushedRows& pushed : split.pushed)
    if (pushed.server == options.server) store->pushed_[pushed.name] = pushed;
  for (const Argument& argument : store->session_.graph().arguments())
    if (!argument.is_variable) store->inputs_.insert(store->session_.graph().value(argument.value).name);
  for (const SparseVariable& sparse : split.sparse)
    store->row_updates_.emplace(sparse.variable, RowUpdate(sparse, options.session));
  MESHWORK_RETURN_IF_ERROR(store->Initialize(split));
  if (!options.folder.empty()) MESHWORK_RETURN_IF_ERROR(store->Restore());
  return store;
}

// The initial value in a Session of the whole program.
absl::StatusOr<Tensor> ShardStore::InitialValue(const TrainingSplit& split, const Argument& argument) const {
  const ValueInfo& info = split.variables.value(argument.value);
  Graph graph(split.variables.mesh());
  const LocationScope scope(graph, info.location);
  graph.Var(info.name, *argument.initializer);
  SessionOptions options = options_.session;
  options.seed = options_.seed;
  MESHWORK_ASSIGN_OR_RETURN(const Session session, Session::Create(graph, options));
  return session.Get(info.name);
}

absl::Status ShardStore::Initialize(const TrainingSplit& split) {
  std::map<std::string, std::vector<const VariablePiece*>> by_variable;
  for (const auto& [name, piece] : pieces_) by_variable[piece.variable].push_back(&piece);
  for (const auto& [name, value] : options_.initial) {
    const int argument = split.variables.FindArgument(name);
    if (argument < 0)
      return InvalidArgument("ShardStore {}: initial has \"{}\", and there is no such variable{}",
                             options_.server, name,
                             DidYouMeanOneOf(name, NamesOfVariables(split), "variables"));
    const Type& type =
        split.variables.value(split.variables.arguments()[static_cast<size_t>(argument)].value).type;
    MESHWORK_RETURN_IF_ERROR(value.status());
    if (value.type() != type)
      return InvalidArgument("ShardStore {}: initial has {} for \"{}\", which is {}.", options_.server,
                             value.type().ToString(), name, type.ToString());
  }
  // One variable after the other, so that only one is whole in memory at a time.
  for (const Argument& argument : split.variables.arguments()) {
    const ValueInfo& info = split.variables.value(argument.value);
    const auto found = by_variable.find(info.name);
    if (found == by_variable.end()) continue;
    const auto initial = options_.initial.find(info.name);
    Tensor whole;
    if (initial != options_.initial.end()) {
      whole = initial->second;
    } else if (argument.initializer->build != nullptr) {
      MESHWORK_ASSIGN_OR_RETURN(whole, InitialValue(split, argument));
    } else {
      continue;
    }
    for (const VariablePiece* piece : found->second) {
      const Tensor value =
          piece->type == whole.type() ? whole : whole.Rows(piece->rows.begin, piece->rows.end);
      MESHWORK_RETURN_IF_ERROR(session_.Set(piece->name, value));
    }
  }
  return absl::OkStatus();
}

int64_t ShardStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

absl::Status ShardStore::CheckRows(const PieceRows& at, const Type& type) const {
  if (at.rows.type() != Type{I64, {at.rows.num_elements()}} || type.rank() == 0)
    return InvalidArgument(
        "ShardStore {}: rows of \"{}\", {}, are {}; they must be i64[k], of a piece with dims.",
        options_.server, at.piece, type.ToString(), at.rows.type().ToString());
  std::set<int64_t> seen;
  for (int64_t row : at.rows.values<int64_t>()) {
    const bool is_there = row >= 0 && row < type.shape[0];
    if (is_there && seen.insert(row).second) continue;
    return InvalidArgument("ShardStore {}: row {} of \"{}\", {}, {}.", options_.server, row, at.piece,
                           type.ToString(), is_there ? "is named twice; name each once" : "is not there");
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ShardStore::Read(const PieceRows& at) const {
  const auto found = pieces_.find(at.piece);
  if (found == pieces_.end())
    return InvalidArgument("ShardStore {}: there is no piece \"{}\"{}", options_.server, at.piece,
                           DidYouMeanOneOf(at.piece, NamesOf(pieces_), "pieces"));
  if (!at.rows.valid()) return session_.Get(at.piece);
  MESHWORK_RETURN_IF_ERROR(CheckRows(at, found->second.type));
  return PickRows(state_.at(at.piece), at.rows, at.rows.num_elements());
}

absl::StatusOr<Pulled> ShardStore::Pull(const PullRequest& request) {
  const std::lock_guard lock(mutex_);
  Pulled pulled{.version = version_, .life = life_};
  std::set<std::string> seen;
  for (const PieceRows& at : request.pieces) {
    if (!seen.insert(at.piece).second)
      return InvalidArgument("ShardStore {}: a pull names \"{}\" twice; name each piece once.",
                             options_.server, at.piece);
    MESHWORK_ASSIGN_OR_RETURN(Tensor value, Read(at));
    pulled.values.push_back(std::move(value));
  }
  return pulled;
}

absl::Status ShardStore::CheckPushed(const PieceGradient& given, const PushedRows& pushed) const {
  MESHWORK_RETURN_IF_ERROR(given.gradient.status());
  if (given.at.rows.valid() != pushed.is_sparse)
    return InvalidArgument("ShardStore {}: a push has {} rows of \"{}\"; the split has it pushed {}.",
                           options_.server, pushed.is_sparse ? "all" : "some", given.at.piece,
                           pushed.is_sparse ? "by rows, with their numbers" : "whole");
  Type type = pushed.type;
  if (pushed.is_sparse) {
    MESHWORK_RETURN_IF_ERROR(CheckRows(given.at, type));
    type.shape[0] = given.at.rows.num_elements();
  }
  if (given.gradient.type() == type) return absl::OkStatus();
  return InvalidArgument("ShardStore {}: the push for \"{}\" is {}; it must be {}.", options_.server,
                         given.at.piece, given.gradient.type().ToString(), type.ToString());
}

absl::StatusOr<ShardStore::Update> ShardStore::Check(const PushRequest& request) const {
  if (request.pusher.empty() || !IsUtf8(request.pusher) || request.sequence < 1)
    return InvalidArgument(
        "ShardStore {}: a push of pusher \"{}\" has sequence {}; give a name in UTF-8, and count from 1.",
        options_.server, IsUtf8(request.pusher) ? request.pusher : "", request.sequence);
  Update update;
  std::set<std::string> seen;
  for (const PieceGradient& given : request.gradients) {
    const auto found = pushed_.find(given.at.piece);
    if (found == pushed_.end())
      return InvalidArgument("ShardStore {}: nothing is pushed for \"{}\" here{}", options_.server,
                             given.at.piece, DidYouMeanOneOf(given.at.piece, NamesOf(pushed_), "pieces"));
    MESHWORK_RETURN_IF_ERROR(CheckPushed(given, found->second));
    if (!seen.insert(given.at.piece).second)
      return InvalidArgument("ShardStore {}: a push has \"{}\" twice; push each once.", options_.server,
                             given.at.piece);
    if (found->second.is_sparse) update.rows.push_back(given);
    else update.feeds[PushInput(given.at.piece)] = given.gradient;
  }
  for (const auto& [name, pushed] : pushed_)
    if (!seen.contains(name))
      return InvalidArgument("ShardStore {}: a push lacks \"{}\", {}; push all {} of the split.",
                             options_.server, name, pushed.type.ToString(), pushed_.size());
  return update;
}

absl::Status ShardStore::CheckVersion(const PushRequest& request) const {
  const auto too_old = [&](std::string why) {
    return absl::OutOfRangeError(fmt::format(
        "ShardStore {}: the gradients are of version {}, and the store is at {}, {}; pull, and compute them anew.",
        options_.server, request.version, version_, why));
  };
  if (request.version < 0 || request.version > version_ || (request.life != 0 && request.life != life_))
    return too_old("in another life, as one that goes on from a checkpoint");
  if (options_.gather > 0)
    return request.version == version_ ? absl::OkStatus()
                                       : too_old("which has enough gradients without them");
  if (version_ - request.version <= options_.max_staleness.value_or(version_)) return absl::OkStatus();
  return too_old(fmt::format("more than max_staleness={} updates later", *options_.max_staleness));
}

absl::StatusOr<Pushed> ShardStore::Push(const PushRequest& request) {
  MESHWORK_ASSIGN_OR_RETURN(const Update update, Check(request));
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return absl::AbortedError(fmt::format("ShardStore {}: it was stopped.", options_.server));
  if (TakenLocked(request.pusher).Contains(request.sequence)) return Pushed{version_, false};
  MESHWORK_RETURN_IF_ERROR(CheckVersion(request));
  MESHWORK_RETURN_IF_ERROR(options_.gather > 0 ? Gather(request) : Apply(update, {&request}));
  return Pushed{version_, true};
}

SequenceSet ShardStore::TakenLocked(const std::string& pusher) const {
  const auto found = taken_.find(pusher);
  SequenceSet taken = found == taken_.end() ? SequenceSet() : found->second;
  for (const PushRequest& other : gathered_)
    if (other.pusher == pusher) taken.Add(other.sequence);
  return taken;
}

absl::StatusOr<SequenceSet> ShardStore::TakenFrom(const std::string& pusher) {
  const std::lock_guard lock(mutex_);
  return TakenLocked(pusher);
}

absl::Status ShardStore::Apply(const Update& update, const std::vector<const PushRequest*>& of) {
  // Rows are computed first, because they read shared scalars before the step. They are written when nothing
  // can fail any more.
  std::vector<RowUpdate::Change> changes;
  for (const PieceGradient& given : update.rows) {
    const std::string& variable = pieces_.at(given.at.piece).variable;
    MESHWORK_ASSIGN_OR_RETURN(std::vector<RowUpdate::Change> more,
                              row_updates_.at(variable).Run(state_, given.at.piece.substr(variable.size()),
                                                            given.at.rows, given.gradient, update.feeds));
    std::move(more.begin(), more.end(), std::back_inserter(changes));
  }
  Feeds feeds;
  for (const auto& [name, value] : update.feeds)
    if (inputs_.contains(name)) feeds[name] = value;
  MESHWORK_RETURN_IF_ERROR(session_.Run(feeds).status());
  for (const RowUpdate::Change& change : changes) PutRows(change.values, change.rows, state_.at(change.kept));
  ++version_;
  for (const PushRequest* request : of) taken_[request->pusher].Add(request->sequence);
  return absl::OkStatus();
}

absl::Status ShardStore::Gather(const PushRequest& request) {
  PushRequest copy = request;
  for (PieceGradient& given : copy.gradients) {
    given.gradient = Tensor::FromMemory(given.gradient.type(), given.gradient.raw());
    if (given.at.rows.valid()) given.at.rows = Tensor::FromMemory(given.at.rows.type(), given.at.rows.raw());
  }
  gathered_.push_back(std::move(copy));
  if (std::ssize(gathered_) < options_.gather) return absl::OkStatus();
  absl::Status status;
  try {
    status = ApplyGathered();
  } catch (...) {
    status = CaughtStatus(fmt::format("ShardStore {}", options_.server), "there is not enough memory");
  }
  gathered_.clear();
  return status;
}

absl::Status ShardStore::ApplyGathered() {
  // The order does not depend on which push came first, so that sums are always rounded alike.
  std::sort(gathered_.begin(), gathered_.end(), [](const PushRequest& a, const PushRequest& b) {
    return std::tie(a.pusher, a.sequence) < std::tie(b.pusher, b.sequence);
  });
  std::vector<const PushRequest*> requests;
  for (const PushRequest& request : gathered_) requests.push_back(&request);
  MESHWORK_ASSIGN_OR_RETURN(const Update update,
                            Check({.pusher = "mean", .sequence = 1, .gradients = MeanOfPushes(requests)}));
  return Apply(update, requests);
}

void ShardStore::Stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
}

}  // namespace meshwork
