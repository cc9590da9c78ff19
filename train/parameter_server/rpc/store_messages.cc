#include "meshwork/train/parameter_server/rpc/store_messages.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/wire_format.h"
#include "meshwork/train/parameter_server/rpc/field_reader.h"

namespace meshwork {
namespace {

using Kind = WireField::Kind;

// Fields of the messages.
constexpr int kPusher = 1, kSequence = 2, kVersion = 3, kApplied = 4, kPiece = 6, kFact = 7, kTaken = 8,
              kLife = 9, kJob = 10, kNext = 11;
// Fields of a piece: its name, and whether its rows are the next tensor. Fields of a fact: its name and its
// value.
constexpr int kName = 1, kHasRows = 2, kValue = 2;

absl::Status WrongFields(std::string_view what) {
  return InvalidArgument("{}: its fields or tensors are wrong; the sender is no store or client of meshwork.",
                         what);
}

// A message that is one text. `what`: its name, for errors.
absl::StatusOr<std::string> TextIn(const RpcMessage& message, int field, std::string_view what) {
  std::string text;
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(field, Kind::kBytes)) text = f.bytes;
    return true;
  });
  if (!is_right) return WrongFields(what);
  return text;
}

// Whether rows were left out, in contrast to a tensor that became invalid by a mistake.
bool IsAbsent(const Tensor& rows) { return !rows.valid() && rows.type() == Type{}; }

absl::Status AddPiece(const PieceRows& at, WireWriter& fields, std::vector<Tensor>& tensors) {
  WireWriter piece;
  piece.Text(kName, at.piece);
  if (!IsAbsent(at.rows)) {
    MESHWORK_RETURN_IF_ERROR(Annotate(at.rows.status(), fmt::format("the rows of piece \"{}\": ", at.piece)));
    piece.Int(kHasRows, 1);
    tensors.push_back(at.rows);
  }
  fields.Message(kPiece, piece);
  return absl::OkStatus();
}

// The tensors of a message, in order.
class TensorTaker {
 public:
  explicit TensorTaker(const RpcMessage& message) : tensors_(message.tensors) {}
  // False: there is no other one.
  bool Take(Tensor& tensor) {
    if (next_ == tensors_.size()) return false;
    tensor = tensors_[next_++];
    return true;
  }
  bool AtEnd() const { return next_ == tensors_.size(); }

 private:
  const std::vector<Tensor>& tensors_;
  size_t next_ = 0;
};

bool TakePiece(std::string_view bytes, TensorTaker& tensors, PieceRows& at) {
  return internal::ForEachField(bytes, [&](const WireField& f) {
    if (f.Is(kName, Kind::kBytes)) at.piece = f.bytes;
    return !f.Is(kHasRows, Kind::kVarint) || at.rows.valid() || tensors.Take(at.rows);
  });
}

}  // namespace

int64_t JobOf(const JobFacts& facts) { return static_cast<int64_t>(StableHash(FactsMessage(facts).fields)); }

void AddJob(int64_t job, RpcMessage& request) {
  WireWriter field;
  field.Int(kJob, job);
  request.fields += field.bytes();
}

bool IsOfAnotherJob(const RpcMessage& request, int64_t job) {
  std::optional<int64_t> given;
  const bool is_right = internal::ForEachField(request.fields, [&](const WireField& f) {
    if (f.Is(kJob, Kind::kVarint)) given = f.as_int();
    return true;
  });
  return is_right && given.has_value() && *given != job;
}

absl::StatusOr<RpcMessage> PullMessage(const PullRequest& request) {
  RpcMessage message{.call = "Pull"};
  WireWriter fields;
  for (const PieceRows& at : request.pieces) MESHWORK_RETURN_IF_ERROR(AddPiece(at, fields, message.tensors));
  message.fields = fields.bytes();
  return message;
}

absl::StatusOr<PullRequest> PullFromMessage(const RpcMessage& message) {
  PullRequest request;
  TensorTaker tensors(message);
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    return !f.Is(kPiece, Kind::kBytes) || TakePiece(f.bytes, tensors, request.pieces.emplace_back());
  });
  if (!is_right || !tensors.AtEnd()) return WrongFields("Pull");
  return request;
}

absl::StatusOr<RpcMessage> PushMessage(const PushRequest& request) {
  RpcMessage message{.call = "Push"};
  WireWriter fields;
  fields.Text(kPusher, request.pusher)
      .Int(kSequence, request.sequence)
      .Int(kVersion, request.version)
      .Int(kLife, request.life);
  for (const PieceGradient& gradient : request.gradients) {
    MESHWORK_RETURN_IF_ERROR(AddPiece(gradient.at, fields, message.tensors));
    MESHWORK_RETURN_IF_ERROR(Annotate(gradient.gradient.status(),
                                      fmt::format("the gradient of piece \"{}\": ", gradient.at.piece)));
    message.tensors.push_back(gradient.gradient);
  }
  for (const std::string& piece : request.next) fields.Text(kNext, piece);
  message.fields = fields.bytes();
  return message;
}

absl::StatusOr<PushRequest> PushFromMessage(const RpcMessage& message) {
  PushRequest request;
  TensorTaker tensors(message);
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(kPusher, Kind::kBytes)) request.pusher = f.bytes;
    if (f.Is(kSequence, Kind::kVarint)) request.sequence = f.as_int();
    if (f.Is(kVersion, Kind::kVarint)) request.version = f.as_int();
    if (f.Is(kLife, Kind::kVarint)) request.life = f.as_int();
    if (f.Is(kNext, Kind::kBytes)) request.next.emplace_back(f.bytes);
    if (!f.Is(kPiece, Kind::kBytes)) return true;
    PieceGradient& gradient = request.gradients.emplace_back();
    return TakePiece(f.bytes, tensors, gradient.at) && tensors.Take(gradient.gradient);
  });
  if (!is_right || !tensors.AtEnd()) return WrongFields("Push");
  return request;
}

RpcMessage PulledMessage(Pulled pulled) {
  return {.fields = WireWriter().Int(kVersion, pulled.version).Int(kLife, pulled.life).bytes(),
          .tensors = std::move(pulled.values)};
}

absl::StatusOr<Pulled> PulledFromMessage(RpcMessage message) {
  Pulled pulled{.values = std::move(message.tensors)};
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(kVersion, Kind::kVarint)) pulled.version = f.as_int();
    if (f.Is(kLife, Kind::kVarint)) pulled.life = f.as_int();
    return true;
  });
  if (!is_right) return WrongFields("the answer to Pull");
  return pulled;
}

RpcMessage PushedMessage(const Pushed& pushed) {
  return {.fields = WireWriter().Int(kVersion, pushed.version).Int(kApplied, pushed.applied ? 1 : 0).bytes()};
}

absl::StatusOr<Pushed> PushedFromMessage(const RpcMessage& message) {
  Pushed pushed;
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(kVersion, Kind::kVarint)) pushed.version = f.as_int();
    if (f.Is(kApplied, Kind::kVarint)) pushed.applied = f.as_int() != 0;
    return true;
  });
  if (!is_right) return WrongFields("the answer to Push");
  return pushed;
}

RpcMessage AskTakenMessage(const std::string& pusher) {
  return {.call = "TakenFrom", .fields = WireWriter().Text(kPusher, pusher).bytes()};
}

absl::StatusOr<std::string> PusherFromMessage(const RpcMessage& message) {
  return TextIn(message, kPusher, "TakenFrom");
}

RpcMessage TakenMessage(const SequenceSet& taken) {
  return {.fields = WireWriter().Text(kTaken, taken.ToString()).bytes()};
}

absl::StatusOr<SequenceSet> TakenFromMessage(const RpcMessage& message) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, TextIn(message, kTaken, "the answer to TakenFrom"));
  return SequenceSet::Parse(text);
}

RpcMessage SavedMessage(int64_t version) { return {.fields = WireWriter().Int(kVersion, version).bytes()}; }

absl::StatusOr<int64_t> SavedFromMessage(const RpcMessage& message) {
  int64_t version = 0;
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (f.Is(kVersion, Kind::kVarint)) version = f.as_int();
    return true;
  });
  if (!is_right) return WrongFields("the answer");
  return version;
}

RpcMessage FactsMessage(const JobFacts& facts) {
  WireWriter fields;
  for (const auto& [name, value] : facts) {
    WireWriter fact;
    fact.Text(kName, name).Text(kValue, value);
    fields.Message(kFact, fact);
  }
  return {.fields = fields.bytes()};
}

absl::StatusOr<JobFacts> FactsFromMessage(const RpcMessage& message) {
  JobFacts facts;
  const bool is_right = internal::ForEachField(message.fields, [&](const WireField& f) {
    if (!f.Is(kFact, Kind::kBytes)) return true;
    std::string name, value;
    const bool is_fact = internal::ForEachField(f.bytes, [&](const WireField& part) {
      if (part.Is(kName, Kind::kBytes)) name = part.bytes;
      if (part.Is(kValue, Kind::kBytes)) value = part.bytes;
      return true;
    });
    facts[name] = value;
    return is_fact;
  });
  if (!is_right) return WrongFields("the answer to Hello");
  return facts;
}

}  // namespace meshwork
