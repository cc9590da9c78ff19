// AveragesAsWeights: a session computes with the averages of its weights (train/optim/averages.h), for an evaluation.
//
//   {
//     MESHWORK_ASSIGN_OR_RETURN(const auto averages, AveragesAsWeights::Begin(session));
//     session.Evaluate(feeds);                                                              // by the averages
//   }                                                                                       // by the weights again
//
// EvaluateOptions::averages and FitOptions::validation_averages (train/fit/fit.h) do this for a whole evaluation.
//
// Each weight and its average change places, and back again: no copy is kept, and all bits come back. Meanwhile
// "ema/NAME" is the weight, and nothing may be trained or saved. If both have the same layout in host memory, nothing
// is sent; otherwise the host gathers each of them whole, one pair after the other.
//
// Thread safety: the session's thread. The session must outlive it, and not be moved.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/session/session.h"

namespace meshwork {

class AveragesAsWeights {
 public:
  // `name`: AverageOptions::name. All domains of a session call this and End alike. Errors: the session has no averages
  // of this name; those of Session::Get and Set, after which each weight is in its place, unless another domain was
  // lost.
  static absl::StatusOr<std::unique_ptr<AveragesAsWeights>> Begin(Session& session,
                                                                  const std::string& name = "ema");
  AveragesAsWeights(const AveragesAsWeights&) = delete;
  AveragesAsWeights& operator=(const AveragesAsWeights&) = delete;
  ~AveragesAsWeights() { End().IgnoreError(); }
  // Puts the weights back; the destructor does, too. Errors: those of Session::Get and Set.
  absl::Status End();

 private:
  using Pair = std::pair<std::string, std::string>;  // the names of a weight and of its average

  explicit AveragesAsWeights(Session& session) : session_(session) {}
  // `state`: the session's.
  absl::Status Exchange(const Pair& pair, std::map<std::string, DTensor>& state);

  Session& session_;
  std::vector<Pair> exchanged_;
};

// Error: the session has no averages of this name (AverageOptions::name).
absl::Status CheckAverages(const Session& session, const std::string& name);

}  // namespace meshwork
