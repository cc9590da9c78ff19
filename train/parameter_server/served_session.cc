#include "meshwork/train/parameter_server/served_session.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "meshwork/base/first_failure.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"

namespace meshwork {
namespace {

constexpr std::chrono::milliseconds kLook(1), kLeastToWait(100);
constexpr int64_t kMostAhead = int64_t{1} << 20;  // bytes of a store
constexpr int kTimesToWait = 8;  // as long as others needed lately; then they are taken for lost

// Calls f(s) for each store, in threads of their own: each may wait for a network, or for other workers.
void ForEachStore(size_t num_stores, const std::function<void(size_t s)>& f) {
  std::vector<std::thread> threads;
  for (size_t s = 1; s < num_stores; ++s) threads.emplace_back([&f, s] { f(s); });
  f(0);
  for (std::thread& thread : threads) thread.join();
}

int64_t BytesOf(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes();
  return bytes;
}

bool IsOlderThanAllowed(const absl::Status& status) { return absl::IsOutOfRange(status); }

}  // namespace

ServedSession::ServedSession(const TrainingSplit& split, std::vector<std::shared_ptr<ParameterStore>> stores,
                             const ServedSessionOptions& options, Session session,
                             std::unique_ptr<Session> ids)
    : options_(options),
      pieces_(split.pieces),
      pushed_(split.pushed),
      stores_(std::move(stores)),
      session_(std::move(session)),
      ids_(std::move(ids)),
      versions_(stores_.size(), 0),
      lives_(stores_.size(), 0),
      pushed_at_(stores_.size(), -1),
      versions_pushed_(stores_.size(), 0),
      next_(stores_.size()),
      ahead_(stores_.size()) {
  if (options_.pusher.empty()) options_.pusher = RandomName();
  for (const VariablePiece& piece : pieces_)
    if (piece.is_read) read_.push_back(piece);
  for (const SparseVariable& sparse : split.sparse)
    sparse_.push_back({sparse.variable, sparse.rows, sparse.capacity, sparse.ids});
  std::set<std::string> pushed;
  for (const PushedRows& rows : pushed_) pushed.insert(rows.output);
  for (const OutputInfo& output : split.worker.outputs())
    if (!pushed.contains(output.name)) outputs_.push_back(output.name);
  if (!options_.pull_ahead || options_.synchronous || !sparse_.empty()) return;
  std::vector<int64_t> bytes(stores_.size(), 0);
  for (const VariablePiece& piece : read_) {
    const auto s = static_cast<size_t>(piece.server);
    next_[s].push_back(piece.name);
    bytes[s] += piece.type.bytes();
  }
  for (size_t s = 0; s < stores_.size(); ++s)
    if (bytes[s] > kMostAhead) next_[s].clear();
}

absl::StatusOr<ServedSession> ServedSession::Create(const TrainingSplit& split,
                                                    std::vector<std::shared_ptr<ParameterStore>> stores,
                                                    const ServedSessionOptions& options) {
  if (stores.size() != split.servers.size() || std::count(stores.begin(), stores.end(), nullptr) > 0)
    return InvalidArgument(
        "ServedSession: the split has {}, and {} given; give one per server, in their order.",
        Count(std::ssize(split.servers), "server"),
        std::count(stores.begin(), stores.end(), nullptr) > 0
            ? "a store that is null was"
            : fmt::format("{} were", Count(std::ssize(stores), "store")));
  if (options.retries < 0)
    return InvalidArgument("ServedSession: retries is {}; give 0 or more.", options.retries);
  MESHWORK_ASSIGN_OR_RETURN(Session session, Session::Create(split.worker, options.session));
  std::unique_ptr<Session> ids;
  if (!split.sparse.empty()) {
    MESHWORK_ASSIGN_OR_RETURN(Session of_ids, Session::Create(split.ids, options.session));
    ids = std::make_unique<Session>(std::move(of_ids));
  }
  return ServedSession(split, std::move(stores), options, std::move(session), std::move(ids));
}

absl::StatusOr<ServedSession::Rows> ServedSession::FindRows(bool is_training, Feeds& feeds) {
  Rows rows;
  if (ids_ == nullptr) return rows;
  Feeds of_ids;
  for (const Argument& argument : ids_->graph().arguments()) {
    const std::string& name = ids_->graph().value(argument.value).name;
    const auto found = feeds.find(name);
    if (found != feeds.end()) of_ids[name] = found->second;
  }
  std::optional<StepResult> all;
  if (is_training) {
    MESHWORK_ASSIGN_OR_RETURN(all, ids_->Run(of_ids));
  }
  for (const SparseTable& table : sparse_) {
    const absl::StatusOr<StepResult> own = is_training ? *all : ids_->Evaluate(of_ids, table.ids);
    if (!own.ok()) continue;  // an input of its ids is not fed
    const StepResult& ids = *own;
    // Like Gather, counts an id that is out of range as the nearest one in range.
    std::map<int64_t, int64_t> places;
    const auto row_of = [&](int64_t id) { return std::clamp<int64_t>(id, 0, table.rows - 1); };
    for (const std::string& name : table.ids) {
      const Tensor wide = ids.outputs().at(name).Cast(I64);
      for (int64_t id : wide.values<int64_t>()) places[row_of(id)] = 0;
    }
    int64_t next = 0;
    for (auto& [row, place] : places) place = next++;
    for (const std::string& name : table.ids) {
      const Tensor& given = ids.outputs().at(name);
      const Tensor wide = given.Cast(I64);
      Tensor renumbered(wide.type());
      std::transform(wide.values<int64_t>().begin(), wide.values<int64_t>().end(),
                     renumbered.mutable_values<int64_t>().begin(),
                     [&](int64_t id) { return places.at(row_of(id)); });
      feeds[name] = renumbered.Cast(given.dtype());
    }
    for (const VariablePiece& piece : read_) {
      if (piece.variable != table.variable) continue;
      std::vector<int64_t> own;
      for (auto place = places.lower_bound(piece.rows.begin); place != places.lower_bound(piece.rows.end);
           ++place)
        own.push_back(place->first - piece.rows.begin);
      rows[piece.name] = Tensor::From<int64_t>({std::ssize(own)}, own);
    }
  }
  return rows;
}

absl::StatusOr<std::map<std::string, Tensor>> ServedSession::Pull(const std::vector<VariablePiece>& pieces,
                                                                  const Rows& rows,
                                                                  std::vector<Ahead> ahead) {
  std::vector<PullRequest> requests(stores_.size());
  for (const VariablePiece& piece : pieces) {
    const auto found = rows.find(piece.name);
    const Tensor some = found == rows.end() ? Tensor() : found->second;
    requests[static_cast<size_t>(piece.server)].pieces.push_back({piece.name, some});
    if (some.valid()) traffic_.pulled += some.bytes();
  }
  std::vector<Pulled> pulled(stores_.size());
  std::vector<absl::Status> statuses(stores_.size());
  const auto pull = [&](size_t s) {
    absl::StatusOr<Pulled> result = PullFrom(s, requests[s], std::move(ahead[s]));
    statuses[s] = result.status();
    if (result.ok()) pulled[s] = *std::move(result);
  };
  ForEachStore(stores_.size(), pull);
  MESHWORK_RETURN_IF_ERROR(FirstFailure(statuses));
  std::map<std::string, std::vector<Tensor>> parts;
  std::vector<size_t> next(stores_.size(), 0);
  for (const VariablePiece& piece : pieces) {
    const auto s = static_cast<size_t>(piece.server);
    const Tensor& value = pulled[s].values.at(next[s]++);
    MESHWORK_RETURN_IF_ERROR(CheckPulled(piece, rows, value));
    parts[piece.variable].push_back(value);
  }
  for (size_t s = 0; s < stores_.size(); ++s) {
    versions_[s] = pulled[s].version;
    if (std::exchange(lives_[s], pulled[s].life) != pulled[s].life) pushed_at_[s] = -1;
    traffic_.pulled += BytesOf(pulled[s].values);
  }
  std::map<std::string, Tensor> whole;
  for (const auto& [variable, tensors] : parts)
    whole[variable] = tensors.size() == 1 ? tensors[0] : Tensor::Concat(tensors, 0);
  return whole;
}

absl::StatusOr<Pulled> ServedSession::PullFrom(size_t store, const PullRequest& request, Ahead ahead) {
  if (ahead.values != nullptr) {
    absl::StatusOr<Pulled> pulled = ahead.values();
    // If the store has an error that lasts, the next pull reports it.
    if (pulled.ok() && pulled->version >= ahead.at_least) return pulled;
  }
  return stores_[store]->Pull(request);
}

absl::Status ServedSession::CheckPulled(const VariablePiece& piece, const Rows& rows,
                                        const Tensor& value) const {
  Type type = piece.type;
  const auto some = rows.find(piece.name);
  if (some != rows.end() && some->second.valid()) type.shape[0] = some->second.num_elements();
  if (value.type() == type) return absl::OkStatus();
  return InvalidArgument("ServedSession: a store gave {} for \"{}\"; it must be {}, as the split says.",
                         value.type().ToString(), piece.name, type.ToString());
}

absl::StatusOr<bool> ServedSession::AwaitUpdate() {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    bool is_there = true;
    int64_t version = 0;
    for (size_t s = 0; s < stores_.size(); ++s) {
      MESHWORK_ASSIGN_OR_RETURN(const Pulled now, stores_[s]->Pull({}));
      if (s == 0) version = now.version;
      is_there &= now.version == version && (now.version > pushed_at_[s] || now.life != lives_[s]);
    }
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (is_there) {
      // The time until a server is back says nothing of the time that other workers need.
      const auto counted = std::min<std::chrono::nanoseconds>(waited, kMostToWait / kTimesToWait);
      longest_ = std::max<std::chrono::nanoseconds>(counted, longest_ * 7 / 8);
      wait_ = std::clamp<std::chrono::nanoseconds>(kTimesToWait * longest_, kLeastToWait, kMostToWait);
      return true;
    }
    if (waited > wait_) {
      // A server that lost many steps stays behind for many steps.
      wait_ /= 2;
      return false;
    }
    std::this_thread::sleep_for(kLook);
  }
}

absl::Status ServedSession::PullRead(const Rows& rows, bool is_step) {
  std::vector<VariablePiece> pieces;
  for (const VariablePiece& piece : read_)
    if (!piece.is_sparse || rows.contains(piece.name)) pieces.push_back(piece);
  std::vector<Ahead> ahead(stores_.size());
  if (is_step) std::swap(ahead, ahead_);
  MESHWORK_ASSIGN_OR_RETURN(auto variables, Pull(pieces, rows, std::move(ahead)));
  for (const SparseTable& table : sparse_) {
    const auto found = variables.find(table.variable);
    if (found == variables.end()) continue;
    Type rest = found->second.type();
    rest.shape[0] = table.capacity - rest.shape[0];
    if (rest.shape[0] > 0) found->second = Tensor::Concat({found->second, Tensor::Zeros(rest)}, 0);
  }
  for (const auto& [name, value] : variables) MESHWORK_RETURN_IF_ERROR(session_.Set(name, value));
  return absl::OkStatus();
}

absl::Status ServedSession::PullForStep(const Rows& rows) {
  while (options_.synchronous) {
    MESHWORK_ASSIGN_OR_RETURN(const bool is_there, AwaitUpdate());
    if (!is_there) break;
    MESHWORK_RETURN_IF_ERROR(PullRead(rows, /*is_step=*/true));
    // An update may have been made between two pulls.
    if (std::count(versions_.begin(), versions_.end(), versions_[0]) == std::ssize(versions_))
      return absl::OkStatus();
  }
  return PullRead(rows, /*is_step=*/true);
}

absl::Status ServedSession::Push(const std::map<std::string, Tensor>& outputs, const Rows& rows,
                                 const PushId& id, bool pulls_ahead, std::vector<bool>& is_taken) {
  std::vector<PushRequest> requests(stores_.size());
  for (size_t s = 0; s < stores_.size(); ++s) {
    requests[s].pusher = id.pusher;
    requests[s].sequence = id.sequence;
    requests[s].version = versions_[s];
    requests[s].life = lives_[s];
  }
  for (size_t s = 0; pulls_ahead && s < stores_.size(); ++s) requests[s].next = next_[s];
  for (const PushedRows& pushed : pushed_) {
    const auto s = static_cast<size_t>(pushed.server);
    const Tensor& output = outputs.at(pushed.output);
    PieceGradient gradient{{pushed.name}, output};
    if (pushed.is_sparse) {
      // The rows of a batch lie in the order of their ids, those of one piece behind those of the pieces before it.
      int64_t begin = 0;
      for (const PushedRows& other : pushed_)
        if (other.output == pushed.output && other.rows.begin < pushed.rows.begin)
          begin += rows.at(other.name).num_elements();
      gradient.at.rows = rows.at(pushed.name);
      gradient.gradient = output.Rows(begin, begin + gradient.at.rows.num_elements());
    } else if (output.type() != pushed.type) {
      gradient.gradient = output.Rows(pushed.rows.begin, pushed.rows.end);
    }
    requests[s].gradients.push_back(std::move(gradient));
  }
  for (size_t s = 0; s < stores_.size(); ++s)
    for (const PieceGradient& gradient : requests[s].gradients)
      if (!is_taken[s])
        traffic_.pushed +=
            gradient.gradient.bytes() + (gradient.at.rows.valid() ? gradient.at.rows.bytes() : 0);
  std::vector<absl::Status> statuses(stores_.size());
  std::vector<char> applied(stores_.size(), 0);
  ForEachStore(stores_.size(), [&](size_t s) {
    if (is_taken[s]) return;
    const absl::StatusOr<Pushed> pushed = stores_[s]->Push(requests[s]);
    statuses[s] = pushed.status();
    if (!pushed.ok()) return;
    applied[s] = pushed->applied ? 1 : 0;
    versions_pushed_[s] = pushed->version;
    ahead_[s] = {stores_[s], pushed->next};
  });
  num_applied_ += std::count(applied.begin(), applied.end(), 1);
  absl::Status too_old;
  for (size_t s = 0; s < stores_.size(); ++s) {
    if (is_taken[s]) continue;
    if (statuses[s].ok()) {
      is_taken[s] = true;
      if (applied[s] != 0) pushed_at_[s] = versions_[s];
    } else if (IsOlderThanAllowed(statuses[s])) {
      too_old = statuses[s];
    } else {
      return statuses[s];
    }
  }
  return too_old;
}

absl::StatusOr<StepResult> ServedSession::Run(const Feeds& feeds) {
  return Run(feeds, {options_.pusher, ++sequence_});
}

absl::StatusOr<StepResult> ServedSession::Run(const Feeds& feeds, const PushId& id,
                                              std::span<const int64_t> at_least) {
  const auto begin = std::chrono::steady_clock::now();
  // If steps are far apart, values that were pulled ahead would make gradients staler. They are not asked for then.
  const bool is_soon = begin - ended_ <= took_;
  for (size_t s = 0; s < ahead_.size(); ++s) {
    if (!is_soon) ahead_[s].values = nullptr;
    if (s < at_least.size()) ahead_[s].at_least = at_least[s];
  }
  num_applied_ = 0;
  std::vector<bool> is_taken(stores_.size(), false);
  Feeds all = feeds;
  MESHWORK_ASSIGN_OR_RETURN(const Rows rows, FindRows(true, all));
  for (int64_t tried = 0;; ++tried) {
    MESHWORK_RETURN_IF_ERROR(PullForStep(rows));
    MESHWORK_ASSIGN_OR_RETURN(const StepResult result, session_.Run(all));
    const absl::Status status = Push(result.outputs(), rows, id, /*pulls_ahead=*/is_soon, is_taken);
    if (IsOlderThanAllowed(status) && tried < options_.retries) continue;
    MESHWORK_RETURN_IF_ERROR(status);
    ended_ = std::chrono::steady_clock::now();
    took_ = ended_ - begin;
    std::map<std::string, Tensor> outputs;
    for (const std::string& name : outputs_) outputs[name] = result.outputs().at(name);
    return StepResult(std::move(outputs));
  }
}

absl::StatusOr<StepResult> ServedSession::Evaluate(const Feeds& feeds,
                                                   const std::vector<std::string>& outputs) {
  Feeds all = feeds;
  MESHWORK_ASSIGN_OR_RETURN(const Rows rows, FindRows(false, all));
  MESHWORK_RETURN_IF_ERROR(PullRead(rows, /*is_step=*/false));
  return session_.Evaluate(all, outputs.empty() ? outputs_ : outputs);
}

absl::StatusOr<Tensor> ServedSession::Get(std::string_view variable) {
  std::vector<VariablePiece> pieces;
  std::vector<std::string> names;
  for (const VariablePiece& piece : pieces_) {
    if (names.empty() || names.back() != piece.variable) names.push_back(piece.variable);
    // All servers have a shared scalar; one copy is enough.
    const bool is_there = !pieces.empty() && pieces.back().name == piece.name;
    if (piece.variable == variable && !is_there) pieces.push_back(piece);
  }
  if (pieces.empty())
    return InvalidArgument("ServedSession: there is no variable \"{}\"{}", variable,
                           DidYouMeanOneOf(variable, names, "variables"));
  const std::vector<int64_t> versions = versions_;
  MESHWORK_ASSIGN_OR_RETURN(const auto whole, Pull(pieces, {}, std::vector<Ahead>(stores_.size())));
  versions_ = versions;
  return whole.begin()->second;
}

}  // namespace meshwork
