// History: what the epochs of a training came to.
//
//   MESHWORK_ASSIGN_OR_RETURN(const History history, Fit(session, data, {.epochs = 3}));   // train/fit/fit.h
//   history.Of("loss")                  // {2.31, 0.84, 0.42}
//   history.ToCsv()                     // "epoch,step,loss\n1,100,2.31\n…"
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

using Metrics = std::map<std::string, double>;

struct EpochLog {
  int64_t epoch = 0;     // from 0
  int64_t steps = 0;     // of this epoch
  int64_t examples = 0;  // of this epoch
  int64_t step = 0;      // of the whole training, at the end of the epoch
  double seconds = 0;    // the steps alone, without validation; of this process
  Metrics values = {};   // "loss", "val_loss", …
  bool operator==(const EpochLog&) const = default;
};

struct History {
  std::vector<EpochLog> epochs = {};  // that have ended; in a continued training, also those before
  int64_t steps = 0;                  // of the whole training, also those of an epoch that has not ended
  std::string stopped = {};           // why it ended before the last epoch did; "": it did not

  // The values of one output, epoch by epoch; epochs that have none are left out.
  std::vector<double> Of(std::string_view name) const;
  // A line per epoch: "epoch" (from 1), "step", then a column for each output, by name; those of the validation, whose
  // names begin with "val_", last. Where an epoch has no value, the field is empty. Numbers are written so that they
  // can be read back exactly.
  std::string ToCsv() const;
  // One line of text. Law: FromText(ToText()) is the history, bit by bit.
  std::string ToText() const;
  // Error: the text is not from ToText.
  static absl::StatusOr<History> FromText(std::string_view text);
};

namespace internal {

// Numbers with names as text, exactly: "loss=0x1.8p+0 accuracy=inf".
std::string ToExactText(const Metrics& values);
// Error: the text is not from ToExactText.
absl::StatusOr<Metrics> FromExactText(std::string_view text);

}  // namespace internal
}  // namespace meshwork
