// Reads event files back: those of SummaryWriter, of tf.summary and of torch.utils.tensorboard.
//
//   MESHWORK_ASSIGN_OR_RETURN(const Summaries log, ReadSummaries("runs/a"));
//   for (const ScalarSummary& s : log.scalars) fmt::print("{} {} {}\n", s.tag, s.step, s.value);
//
// Thread safety: any number of threads at once; a file may be written meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwork {

struct ScalarSummary {
  std::string tag;
  int64_t step = 0;
  double wall_time = 0;  // seconds since 1970
  double value = 0;      // as f32, which is what files hold
};

// A summary whose contents are not read.
struct OtherSummary {
  std::string tag;
  std::string plugin;  // "histograms", "images", "text", …; "" where the file does not say
  int64_t step = 0;
  double wall_time = 0;
};

struct Summaries {
  std::vector<ScalarSummary> scalars;  // in the order of the file
  std::vector<OtherSummary> others;
  int64_t graphs = 0;
  // One text for each file that ends within a record, as after its writer was killed: how much of the record is there.
  // The records before it are read.
  std::vector<std::string> cut_short;
};

// The summaries of one file, or of all event files of a folder, read in the order of their names, as TensorBoard does.
// Steps that a later file voids (SummaryOptions::purge_step) are left out. Folders within the folder are not read.
// Errors: it cannot be read; the folder has no event file; DATA_LOSS, a file is damaged or is no event file.
absl::StatusOr<Summaries> ReadSummaries(const std::string& path);

}  // namespace meshwork
