// FileSource: what sources that read files have in common: one file behind the other, positions, places in errors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/train/data/byte_reader.h"
#include "meshwork/train/data/pipeline_stage.h"

namespace meshwork::internal {

// Reads the records of a file. Made anew for each file.
class FormatReader {
 public:
  virtual ~FormatReader() = default;
  // Reads what stands in front of the first record. Errors are complete messages, except that `Csv: ` or the like, which
  // the source adds, stands in front.
  virtual absl::Status Begin(ByteReader& in, int64_t& number) = 0;
  // The next record; nothing at the end of the file. `number` is the file's, counts what errors count (lines, records),
  // and is saved with positions; it is 0 at first.
  virtual absl::StatusOr<std::optional<Example>> Next(ByteReader& in, int64_t& number) = 0;
};
using MakeFormatReader = std::function<std::unique_ptr<FormatReader>()>;

// `name` begins the messages, "Csv"; `kind` the description, "csv". Error: there are no paths.
absl::StatusOr<StagePtr> FileSource(std::string name, std::string kind, std::vector<std::string> paths,
                                    MakeFormatReader make);

}  // namespace meshwork::internal
