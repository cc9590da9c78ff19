// DataAgreement: processes that walk over their data together tell each other where they are, so that a step is taken
// by all of them or by none. Only this room uses it.
//
//   DataAgreement agreement("Predict", session);
//   MESHWORK_RETURN_IF_ERROR(agreement.Begin(status, [&] { return FactsOfPipeline("data", data, true); }));
//   for (…) {
//     const DataAgreement::Step step(agreement, "batch 4, 32 examples");
//     session.Predict(…)                                            // fails in all processes if they are not at one batch
//   }
//   MESHWORK_RETURN_IF_ERROR(agreement.AtPlace("the data end after batch 4"));
//
// The processes of a session exchange a message before each step anyway. The step's place is part of it, so it costs no
// message of its own. Begin and AtPlace cost one each.
//
// In a session of one domain, it does nothing. Errors are the same in all domains, and leave the session as it was.
//
// Thread safety: the session's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/session/session.h"
#include "meshwork/session/step_agreement.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// A value that must be the same in all processes.
struct DataFact {
  std::string name, value;
  std::string_view advice;  // what to do where it differs
};
inline constexpr std::string_view kSameOptions = "All processes need the same options.";
inline constexpr std::string_view kSameData =
    "All processes walk over the same data, of which each reads its rows: give all the same source, sizes and seeds. What a "
    "process reads for itself becomes whole batches by DistributeDatasetsFromFunction.";
DataFact OptionFact(std::string name, int64_t value);
// The facts of a pipeline called `what`: its fingerprint, and how many elements it has. If `is_whole` is false, only
// whether it has any elements counts.
std::vector<DataFact> FactsOfPipeline(std::string_view what, const Pipeline& data, bool is_whole);

class DataAgreement : public StepAgreement {
 public:
  // `where` begins the messages. The session must outlive it.
  DataAgreement(std::string where, Session& session);
  DataAgreement(const DataAgreement&) = delete;
  DataAgreement& operator=(const DataAgreement&) = delete;

  bool is_alone() const { return transport() == nullptr; }

  // `mine`: why this process cannot begin. Errors: mine, and that of another process; facts that differ.
  absl::Status Begin(const absl::Status& mine, const std::function<std::vector<DataFact>()>& facts);

  // While a Step exists, the session's steps are taken at `place`. `why_stop`: why this process wants to stop; empty:
  // it does not.
  class Step {
   public:
    Step(DataAgreement& agreement, std::string place, std::string why_stop = "");
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step();

   private:
    DataAgreement& agreement_;
  };
  // Checks that all processes are at this place, where they take no step. Error: others are elsewhere.
  absl::Status AtPlace(const std::string& place, const std::string& why_stop = "");
  // The first error about processes that differ: its message is complete, and callers add nothing. OK: there was none.
  const absl::Status& difference() const { return difference_; }
  // Why the processes stop, after one of them wanted to; the same in all. A step then fails in all with CANCELLED, and
  // is not taken. Empty: they go on.
  const std::string& stopped() const { return stopped_; }

  // At the place of the Step.
  absl::Status Agree(const absl::Status& mine, const std::string& step) override;

 private:
  Transport* transport() const;
  // Sets whether the session's steps ask this object.
  void SetAsked(bool asked);
  absl::Status Compare(const std::vector<std::string>& values);

  const std::string where_;
  Session& session_;
  std::string place_, why_stop_, stopped_;
  absl::Status difference_;
};

}  // namespace meshwork
