#include "meshwork/train/live_state.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "meshwork/base/json.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/box.h"
#include "meshwork/train/move_state.h"
#include "nlohmann/json.hpp"

namespace meshwork {
namespace {

// What a process says of something that it keeps.
struct Said {
  int64_t number = 0;
  std::string mesh;
  int64_t domains = 0, domain = 0;
  int64_t steps = 0;
  bool can_undo = false;
  std::map<std::string, std::string> types, layouts;  // by variable

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
      {"number", &said.number}, {"domains", &said.domains}, {"domain", &said.domain}, {"steps", &said.steps}};
  for (const auto& [key, number] : numbers) {
    MESHWORK_ASSIGN_OR_RETURN(const JsonReader value, json.Get(key));
    MESHWORK_ASSIGN_OR_RETURN(*number, value.Integer());
  }
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader mesh, json.Get("mesh"));
  MESHWORK_ASSIGN_OR_RETURN(said.mesh, mesh.String());
  said.can_undo = json.Has("undo");
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader types, json.Get("types"));
  MESHWORK_ASSIGN_OR_RETURN(said.types, ReadTexts(types));
  MESHWORK_ASSIGN_OR_RETURN(const JsonReader layouts, json.Get("layouts"));
  MESHWORK_ASSIGN_OR_RETURN(said.layouts, ReadTexts(layouts));
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

absl::StatusOr<std::vector<std::string>> AllGather(Transport* transport, std::string text) {
  if (transport == nullptr) return std::vector<std::string>{std::move(text)};
  return transport->AllGather("the live state", text);
}

// One thing that processes keep, and whether they can go on from it.
class Choice {
 public:
  Choice(int64_t number, const std::vector<std::vector<Said>>& all) : number_(number) {
    for (size_t p = 0; p < all.size(); ++p)
      for (const Said& said : all[p])
        if (said.number == number) holders_.emplace_back(static_cast<int64_t>(p), said);
  }

  int64_t number() const { return number_; }
  int64_t step() const { return step_; }
  const StateSide& side() const { return side_; }

  // Error, which says why: they cannot go on from it.
  absl::Status Check(const std::map<std::string, DTensor>& wanted) {
    MESHWORK_RETURN_IF_ERROR(CheckAlike(wanted));
    MESHWORK_RETURN_IF_ERROR(CheckSteps());
    MESHWORK_RETURN_IF_ERROR(FindSide());
    for (const auto& [name, tensor] : wanted) {
      const Layout& layout = side_.layouts.at(name);
      if (const std::optional<Block> lost = LostBlock(side_, layout, tensor.type().shape); lost.has_value())
        return absl::DataLossError(fmt::format(
            "of variable \"{}\", {} {} on {}, the block {} was in lost processes alone", name,
            tensor.type().ToString(), layout.ToString(), side_.placement.ToString(), BlockToString(*lost)));
    }
    return absl::OkStatus();
  }

 private:
  const Said& first() const { return holders_[0].second; }

  absl::Status CheckAlike(const std::map<std::string, DTensor>& wanted) const {
    std::map<std::string, std::string> types;
    for (const auto& [name, tensor] : wanted) types[name] = tensor.type().ToString();
    if (types != first().types)
      return absl::FailedPreconditionError("the program has other variables now, or of other types");
    for (const auto& [process, said] : holders_)
      if (!said.IsOfOneSessionWith(first()))
        return absl::FailedPreconditionError(
            fmt::format("processes {} and {} keep different sessions", holders_[0].first, process));
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

  absl::Status FindSide() {
    MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(first().mesh));
    MESHWORK_ASSIGN_OR_RETURN(side_.placement, Placement::Create(mesh, first().domains));
    side_.processes.assign(static_cast<size_t>(first().domains), StateSide::kLost);
    for (const auto& [process, said] : holders_)
      side_.processes.at(static_cast<size_t>(said.domain)) = process;
    for (const auto& [name, text] : first().layouts) {
      MESHWORK_ASSIGN_OR_RETURN(Layout layout, Layout::Parse(side_.placement.mesh(), text));
      side_.layouts.emplace(name, std::move(layout));
    }
    return absl::OkStatus();
  }

  const int64_t number_;
  std::vector<std::pair<int64_t, Said>> holders_;  // ascending by process; at least one
  int64_t step_ = 0;
  StateSide side_;
};

// The last number that was kept by any process, to the first.
std::set<int64_t, std::greater<>> NumbersOf(const std::vector<std::vector<Said>>& all) {
  std::set<int64_t, std::greater<>> numbers;
  for (const std::vector<Said>& of_process : all)
    for (const Said& said : of_process) numbers.insert(said.number);
  return numbers;
}

// Whether the session's steps leave the variables as they were where they fail.
absl::Status CheckIsAtomic(const Session& session) {
  if (session.memory().spare_bytes > 0 || session.program().body.updates().empty()) return absl::OkStatus();
  return InvalidArgument(
      "LiveState: a step that fails leaves no usable values; set SessionOptions::executor.atomic, with which it changes "
      "nothing.");
}

}  // namespace

absl::Status LiveState::Keep(Transport* transport, const Session& session) {
  const absl::Status mine = CheckIsAtomic(session);
  if (transport != nullptr)
    MESHWORK_RETURN_IF_ERROR(
        Agree(*transport, "the live state", mine.ok() ? absl::StatusOr<std::string>("kept") : mine));
  MESHWORK_RETURN_IF_ERROR(mine);
  const int64_t last = held_.empty() ? 0 : held_.back().number;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGather(transport, std::to_string(last)));
  int64_t most = 0;
  for (const std::string& text : texts) {
    int64_t number = 0;
    MESHWORK_CHECK(absl::SimpleAtoi(text, &number), "{}", text);
    most = std::max(most, number);
  }
  held_.push_back({most + 1, session.State(), session.record()});
  // Only when all have kept it, nobody needs what was before.
  MESHWORK_RETURN_IF_ERROR(AllGather(transport, "kept").status());
  held_.erase(held_.begin(), held_.end() - 1);
  return absl::OkStatus();
}

absl::StatusOr<Recovered> LiveState::Recover(Transport* transport, Session& session) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, AllGather(transport, Describe()));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::vector<Said>> all, ReadAll(texts));
  Recovered recovered;
  for (int64_t number : NumbersOf(all)) {
    Choice choice(number, all);
    const absl::Status status = choice.Check(session.State());
    if (!status.ok()) {
      if (recovered.why_not.empty()) recovered.why_not = MessageOf(status);
      continue;
    }
    const Held* const held = Find(number);
    if (held != nullptr && held->record->done() > choice.step())
      MESHWORK_RETURN_IF_ERROR(held->record->Undo());
    MESHWORK_RETURN_IF_ERROR(MoveState(transport, choice.side(),
                                       held == nullptr ? std::map<std::string, DTensor>() : held->variables,
                                       session.State()));
    session.set_steps_done(choice.step());
    return Recovered{.step = choice.step()};
  }
  return recovered;
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
    const Domain& domain = held.variables.begin()->second.domain();
    all.push_back({{"number", held.number},
                   {"mesh", domain.mesh().ToString()},
                   {"domains", domain.placement().num_domains()},
                   {"domain", domain.index()},
                   {"steps", held.record->done()},
                   {"types", std::move(types)},
                   {"layouts", std::move(layouts)}});
    if (held.record->can_undo()) all.back()["undo"] = true;
  }
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const LiveState::Held* LiveState::Find(int64_t number) const {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](const Held& held) { return held.number == number; });
  return found == held_.end() ? nullptr : &*found;
}

}  // namespace meshwork
