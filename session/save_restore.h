// Checkpoints of the variables that the domains of a session hold: written once, and read, in all domains or in none.
// Session::Save, Session::Restore and CheckpointManager are made of these functions.
//
// All domains call a function alike, and all must see the folder, each maybe under another name. It succeeds in all of
// them, or fails in all.
//
// Thread safety: the transport's thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_index.h"
#include "meshwork/storage/checkpoint_writer.h"

namespace meshwork {

// The variables that a domain holds, and its end of the transport; null: there is one domain.
struct DomainState {
  Transport* transport = nullptr;
  std::map<std::string, DTensor> variables;
  std::string backend = {};  // Backend::name()

  int64_t domain() const { return transport == nullptr ? 0 : transport->domain(); }
  int64_t num_domains() const { return transport == nullptr ? 1 : transport->num_domains(); }
};

// Agree if there are several domains; else `mine`.
absl::Status AllAgree(Transport* transport, std::string_view what, const absl::StatusOr<std::string>& mine);
absl::Status AllAgree(Transport* transport, std::string_view what, const absl::Status& mine);
// The same text in all domains, and another one each time (CheckpointWriterOptions::job). `what`: what it is for
// (Transport::AllGather).
absl::StatusOr<std::string> NewJob(Transport* transport, std::string_view what);
// OK if all domains see the folder in which domain 0 has opened a writer with this job. Error, in all: a domain does
// not see it.
absl::Status CheckSeen(Transport* transport, const std::string& dir, const std::string& job);
// Waits until the writers of all domains have written. If a domain is lost meanwhile, returns the transport's error.
absl::Status AwaitWriters(Transport* transport, const CheckpointWriter& writer);
// How a write ended. A domain that could not write, or not in time, is no lost process (Processes::Run), so the code of
// the error is changed to DATA_LOSS.
absl::Status EndOf(CheckpointWriter& writer);

// Like Session::Save.
absl::Status SaveState(const DomainState& state, const std::string& dir, const CheckpointNote& note);
// Like Session::Restore; nothing if there is no checkpoint. `report` gets a line for each checkpoint that cannot be
// used, in domain 0; null: standard error does.
absl::StatusOr<std::optional<CheckpointNote>> RestoreState(
    const DomainState& state, const std::string& path, const RestoreOptions& options,
    const std::function<void(std::string_view)>& report = {});

}  // namespace meshwork
