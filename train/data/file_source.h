// FileSource: the common part of sources that read files: one file after the other, positions, places in errors.
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
  // Reads the header in front of the first record. Errors are complete messages, but for a prefix such as `Csv: `,
  // which the source adds.
  virtual absl::Status Begin(ByteReader& in, int64_t& number) = 0;
  // The next record; nothing at the end of the file. `number` belongs to the file: it counts the lines or records that
  // errors name, begins at 0, and is saved with positions.
  virtual absl::StatusOr<std::optional<Example>> Next(ByteReader& in, int64_t& number) = 0;
};
using MakeFormatReader = std::function<std::unique_ptr<FormatReader>()>;

// `name` begins the messages, "Csv"; `kind` the description, "csv". Error: there are no paths.
absl::StatusOr<StagePtr> FileSource(std::string name, std::string kind, std::vector<std::string> paths,
                                    MakeFormatReader make);

}  // namespace meshwork::internal
