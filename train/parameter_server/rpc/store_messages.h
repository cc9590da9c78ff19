// The requests and answers of a ParameterStore as messages of the RPC. Reading does not trust the sender: any message
// gives a request or an error. The store itself checks what it has: pieces, types, numbers of rows.
//
// Law, for x of each kind: XFromMessage(MessageOf…(x)) is x, with the same elements; but Pushed::next comes in a
// message of its own.
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

// The facts that a server and its clients must share: names, such as "program", with the value of each side, such as
// the program's fingerprint.
using JobFacts = std::map<std::string, std::string>;

// A request has a hash of its client's facts, which a server compares with its own. Otherwise nobody would notice that
// another server was started at the same address. IsOfAnotherJob is false for a request that has no hash, or whose
// fields are wrong.
void AddJob(int64_t job, RpcMessage& request);
bool IsOfAnotherJob(const RpcMessage& request, int64_t job);
// The hash of a job's facts, for requests.
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
