// TextLines.
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/train/data/file_source.h"
#include "meshwork/train/data/pipeline_files.h"

namespace meshwork {
namespace {

class LineReader : public internal::FormatReader {
 public:
  explicit LineReader(TextLinesOptions options) : options_(options) {}

  absl::Status Begin(internal::ByteReader&, int64_t&) override { return absl::OkStatus(); }
  absl::StatusOr<std::optional<Example>> Next(internal::ByteReader& in, int64_t& number) override {
    std::string line;
    const absl::StatusOr<bool> is_there = in.ReadLine(line, options_.longest, number + 1);
    MESHWORK_RETURN_IF_ERROR(is_there.status());
    if (!*is_there) return std::nullopt;
    ++number;
    Example example;
    example.SetText("line", std::move(line));
    return example;
  }

 private:
  const TextLinesOptions options_;
};

}  // namespace

Pipeline TextLines(std::vector<std::string> paths, TextLinesOptions options) {
  return internal::PipelineOf(internal::FileSource("TextLines", "text_lines", std::move(paths),
                                                   [=] { return std::make_unique<LineReader>(options); }));
}

}  // namespace meshwork
