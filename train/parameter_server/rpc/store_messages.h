// The requests of a ParameterStore and what it answers, as messages of the RPC. Reading them trusts nobody: whatever is in
// a message, it gives a request or an error. What a store has – pieces, types, numbers of rows – the store checks.
//
// Law, for x of each kind: XFromMessage(MessageOf…(x)) is x, with the same elements; but Pushed::next comes in a message of its own.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "meshwork/train/parameter_server/rpc/message.h"
#include "meshwork/train/parameter_server/store.h"

namespace meshwork {

// What a server and its clients must have in common: names, such as "program", with what each side has, such as the
// program's fingerprint.
using JobFacts = std::map<std::string, std::string>;

// Of a request: a hash of its client's facts, which a server compares with its own. A server that was started again at the
// address of another one is asked without anybody noticing. Reads false of a request that says none, and of no such fields.
void AddJob(int64_t job, RpcMessage& request);
bool IsOfAnotherJob(const RpcMessage& request, int64_t job);
// The number of a job in requests.
int64_t JobOf(const JobFacts& facts);

// Errors of the first two: rows that are an invalid tensor; a gradient that is one.
absl::StatusOr<RpcMessage> PullMessage(const PullRequest& request);
absl::StatusOr<RpcMessage> PushMessage(const PushRequest& request);
RpcMessage PulledMessage(Pulled pulled);
RpcMessage PushedMessage(const Pushed& pushed);
RpcMessage SavedMessage(int64_t version);
RpcMessage AskTakenMessage(const std::string& pusher);
RpcMessage TakenMessage(const SequenceSet& taken);
RpcMessage FactsMessage(const JobFacts& facts);

// Errors: it is no such message.
absl::StatusOr<PullRequest> PullFromMessage(const RpcMessage& message);
absl::StatusOr<PushRequest> PushFromMessage(const RpcMessage& message);
absl::StatusOr<Pulled> PulledFromMessage(RpcMessage message);
absl::StatusOr<Pushed> PushedFromMessage(const RpcMessage& message);
absl::StatusOr<int64_t> SavedFromMessage(const RpcMessage& message);
absl::StatusOr<std::string> PusherFromMessage(const RpcMessage& message);
absl::StatusOr<SequenceSet> TakenFromMessage(const RpcMessage& message);
absl::StatusOr<JobFacts> FactsFromMessage(const RpcMessage& message);

}  // namespace meshwork
