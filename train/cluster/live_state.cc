#include "meshwork/train/cluster/live_state.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/layout/block.h"
#include "meshwork/layout/send.h"
#include "meshwork/runtime/exec/state_move.h"
#include "meshwork/session/save_restore.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

constexpr std::string_view kToKeep = "the live state to keep", kHeld = "the live state";

// What a process tells the others about one session that it keeps.
struct Said {
  std::string name, mesh;
  int64_t domains = 0, domain = 0;
  int64_t steps = 0;
  bool can_undo = false;
  std::map<std::string, std::string> types, layouts;  // by variable
  std::map<std::string, CheckpointFacts> facts;       // by steps

  bool IsOfOneSessionWith(const Said& other) const {
    return mesh == other.mesh && domains == other.domains && types == other.types && layouts == other.layouts;
  }
};

absl::StatusOr<std::map<std::string, std::string>> ReadTexts(const JsonReader& json) {
  std::map<std::string, std::string> texts;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> keys, json.Keys());
  for (const std::string& key : keys) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader text, json.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(texts[key], text.String());
  }
  return texts;
}

absl::StatusOr<Said> ReadSaid(const JsonReader& json) {
  Said said;
  const std::pair<const char*, int64_t*> numbers[] = {
      {"domains", &said.domains}, {"domain", &said.domain}, {"steps", &said.steps}};
  for (const auto& [key, number] : numbers) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, json.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(*number, value.Integer());
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader name, json.Get("name"));
  MESHWORK_ASSIGN_OR_RETURN(said.name, name.String());
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader mesh, json.Get("mesh"));
  MESHWORK_ASSIGN_OR_RETURN(said.mesh, mesh.String());
  said.can_undo = json.Has("undo");
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader types, json.Get("types"));
  MESHWORK_ASSIGN_OR_RETURN(said.types, ReadTexts(types));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader layouts, json.Get("layouts"));
  MESHWORK_ASSIGN_OR_RETURN(said.layouts, ReadTexts(layouts));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader facts, json.Get("facts"));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> steps, facts.Keys());
  for (const std::string& step : steps) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader of_step, facts.Get(step));
    MESHWORK_ASSIGN_OR_RETURN(said.facts[step], ReadTexts(of_step));
  }
  return said;
}

// By process: all that it keeps.
absl::StatusOr<std::vector<std::vector<Said>>> ReadAll(const std::vector<std::string>& texts) {
  std::vector<std::vector<Said>> all;
  for (size_t p = 0; p < texts.size(); ++p) {
    const std::string document = fmt::format("the live state of process {}", p);
    MESHWORK_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(texts[p], document));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<JsonReader> items, JsonReader(json, document).Items());
    all.emplace_back();
    for (const JsonReader& item : items) {
      MESHWORK_ASSIGN_OR_RETURN(Said said, ReadSaid(item));
      all.back().push_back(std::move(said));
    }
  }
  return all;
}

absl::StatusOr<std::vector<std::string>> AllGather(Transport* transport, std::string_view what,
                                                   std::string text) {
  if (transport == nullptr) return std::vector<std::string>{std::move(text)};
  return transport->AllGather(what, text);
}

// One session that processes keep, and whether they can continue from it.
class Choice {
 public:
  Choice(const std::string& name, const std::vector<std::vector<Said>>& all) : name_(name) {
    for (size_t p = 0; p < all.size(); ++p)
      for (const Said& said : all[p])
        if (said.name == name) holders_.emplace_back(static_cast<int64_t>(p), said);
  }

  const std::string& name() const { return name_; }
  int64_t step() const { return step_; }
  CheckpointNote Note() const {
    CheckpointNote note{.step = step_};
    for (const auto& [process, said] : holders_)
      if (const auto facts = said.facts.find(std::to_string(step_));
          facts != said.facts.end() && note.facts.empty())
        note.facts = facts->second;
    return note;
  }
  const StateMove& move() const { return *move_; }

  // `wanted`: the variables of the new session. Error: why they cannot continue from it.
  absl::Status Check(const std::map<std::string, DTensor>& wanted) {
    MESHWORK_RETURN_IF_ERROR(CheckAlike(wanted));
    MESHWORK_RETURN_IF_ERROR(CheckSteps());
    MESHWORK_RETURN_IF_ERROR(Plan(wanted));
    if (move_->lost().empty()) return absl::OkStatus();
    const auto& [name, blocks] = *move_->lost().begin();
    return absl::DataLossError(fmt::format(
        "of variable \"{}\", {} {} on {}, nobody has the block {} any more", name, first().types.at(name),
        first().layouts.at(name), placement_.ToString(), BlockToString(blocks[0])));
  }

 private:
  const Said& first() const { return holders_[0].second; }

  absl::Status CheckAlike(const std::map<std::string, DTensor>& wanted) const {
    std::map<std::string, std::string> types;
    for (const auto& [name, tensor] : wanted) types[name] = tensor.type().ToString();
    if (types != first().types)
      return absl::FailedPreconditionError("the program has other variables now, or of other types");
    for (const auto& [process, said] : holders_) MESHWORK_CHECK(said.IsOfOneSessionWith(first()));
    return absl::OkStatus();
  }

  absl::Status CheckSteps() {
    step_ = first().steps;
    for (const auto& [process, said] : holders_) step_ = std::min(step_, said.steps);
    for (const auto& [process, said] : holders_) {
      if (said.steps == step_ || (said.steps == step_ + 1 && said.can_undo)) continue;
      return absl::FailedPreconditionError(
          fmt::format("process {} is {} steps further than another one, and can undo {}", process,
                      said.steps - step_, said.can_undo ? "one" : "none"));
    }
    return absl::OkStatus();
  }

  absl::Status Plan(const std::map<std::string, DTensor>& wanted) {
    MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(first().mesh));
    MESHWORK_ASSIGN_OR_RETURN(placement_, Placement::Create(mesh, first().domains));
    PlacedDomains from{placement_,
                       std::vector<int64_t>(static_cast<size_t>(first().domains), SendSide::kLost)};
    for (const auto& [process, said] : holders_)
      from.processes.at(static_cast<size_t>(said.domain)) = process;
    std::map<std::string, MovedVariable> moved;
    for (const auto& [name, tensor] : wanted) {
      MESHWORK_ASSIGN_OR_RETURN(Layout layout, Layout::Parse(placement_.mesh(), first().layouts.at(name)));
      moved.emplace(name, MovedVariable{tensor.type(), std::move(layout), tensor.layout()});
    }
    move_ = StateMove::Plan(from, {wanted.begin()->second.domain().placement()}, moved);
    return absl::OkStatus();
  }

  std::string name_;
  std::vector<std::pair<int64_t, Said>> holders_;  // ascending by process; at least one, which has variables
  int64_t step_ = 0;
  Placement placement_;
  std::optional<StateMove> move_;
};

// The names of all that processes keep.
std::set<std::string> NamesOf(const std::vector<std::vector<Said>>& all) {
  std::set<std::string> names;
  for (const std::vector<Said>& of_process : all)
    for (const Said& said : of_process) names.insert(said.name);
  return names;
}

// Whether the session's steps leave the variables as they were where they fail.
absl::Status CheckIsAtomic(const Session& session) {
  if (session.memory().spare_bytes > 0 || session.program().body.updates().empty()) return absl::OkStatus();
  return InvalidArgument(
      "LiveState: a step that fails leaves no usable values; set SessionOptions::executor.atomic, with which it changes "
      "nothing.");
}

}  // namespace

absl::Status LiveState::Keep(Transport* transport, const Session& session, CheckpointFacts facts) {
  MESHWORK_RETURN_IF_ERROR(AllAgree(transport, kToKeep, CheckIsAtomic(session)));
  MESHWORK_ASSIGN_OR_RETURN(std::string name, NewJob(transport, kToKeep));
  held_.push_back(
      {std::move(name), session.State(), session.record(), {{session.steps_done(), std::move(facts)}}});
  // Once all have kept it, nobody needs the earlier ones.
  MESHWORK_RETURN_IF_ERROR(AllGather(transport, kToKeep, "kept").status());
  held_.erase(held_.begin(), held_.end() - 1);
  return absl::OkStatus();
}

void LiveState::Note(CheckpointFacts facts) {
  if (held_.empty()) return;
  Held& held = held_.back();
  const int64_t done = held.record->done();
  held.facts[done] = std::move(facts);
  std::erase_if(held.facts, [done](const auto& entry) { return entry.first < done - 1; });
}

absl::StatusOr<Recovered> LiveState::Recover(Transport* transport, Session& session) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGather(transport, kHeld, Describe()));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::vector<Said>> all, ReadAll(texts));
  Recovered recovered;
  std::optional<Choice> best;
  for (const std::string& name : NamesOf(all)) {
    Choice choice(name, all);
    const absl::Status status = choice.Check(session.State());
    if (!status.ok()) recovered.why_not = MessageOf(status);
    else if (!best.has_value() || choice.step() > best->step()) best = std::move(choice);
  }
  if (!best.has_value()) return recovered;
  const Held* const held = Find(best->name());
  if (held != nullptr && held->record->done() > best->step()) MESHWORK_RETURN_IF_ERROR(held->record->Undo());
  std::map<std::string, DTensor> old, made = session.State();
  if (held != nullptr) old = held->variables;
  MESHWORK_RETURN_IF_ERROR(best->move().Run(transport, /*memory=*/nullptr, old, made));  // all are made
  session.set_steps_done(best->step());
  return Recovered{.note = best->Note()};
}

std::string LiveState::Describe() const {
  nlohmann::json all = nlohmann::json::array();
  for (const Held& held : held_) {
    nlohmann::json types = nlohmann::json::object(), layouts = nlohmann::json::object();
    for (const auto& [name, tensor] : held.variables) {
      types[name] = tensor.type().ToString();
      layouts[name] = tensor.layout().ToString();
    }
    if (held.variables.empty()) continue;
    nlohmann::json facts = nlohmann::json::object();
    for (const auto& [step, of_step] : held.facts) facts[std::to_string(step)] = of_step;
    const Domain& domain = held.variables.begin()->second.domain();
    all.push_back({{"name", held.name},
                   {"mesh", domain.mesh().ToString()},
                   {"domains", domain.placement().num_domains()},
                   {"domain", domain.index()},
                   {"steps", held.record->done()},
                   {"types", std::move(types)},
                   {"layouts", std::move(layouts)},
                   {"facts", std::move(facts)}});
    if (held.record->can_undo()) all.back()["undo"] = true;
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const LiveState::Held* LiveState::Find(const std::string& name) const {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Held& held) { return held.name == name; });
  return found == held_.end() ? nullptr : &*found;
}

}  // namespace meshwork
