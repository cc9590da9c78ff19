#include "meshwork/train/data/file_source.h"

#include <utility>

#include "meshwork/base/hash.h"
#include "meshwork/base/status.h"

namespace meshwork::internal {
namespace {

class Files : public Stage {
 public:
  Files(std::string name, std::string kind, std::vector<std::string> paths, MakeFormatReader make)
      : name(std::move(name)), kind(std::move(kind)), paths(std::move(paths)), make(std::move(make)) {}
  std::unique_ptr<Walk> Begin(uint64_t epoch) const override;
  std::string Describe(For reader) const override {
    const std::string files = Count(static_cast<int64_t>(paths.size()), "file");
    if (reader == For::kPosition) return fmt::format("{}({})", kind, files);
    // Each process may have them in another folder.
    std::string names;
    for (const std::string& path : paths) names += path.substr(path.rfind('/') + 1) + "/";
    return fmt::format("{}({}, names {:016x})", kind, files, StableHash(names));
  }
  std::optional<int64_t> Size() const override { return std::nullopt; }

  const std::string name, kind;
  const std::vector<std::string> paths;
  const MakeFormatReader make;
};

class FilesWalk : public WalkOver<Files> {
 public:
  using WalkOver::WalkOver;

  absl::StatusOr<std::optional<Example>> Next() override {
    while (file_ < num_files()) {
      absl::StatusOr<std::optional<Example>> record = NextOfFile();
      if (!record.ok()) return Annotate(record.status(), stage_->name + ": ");
      if (record->has_value()) return record;
      in_.reset();
      reader_.reset();
      number_ = 0;
      ++file_;
    }
    return std::nullopt;
  }
  absl::Status Save(Counters& to) const override {
    to.insert(to.end(), {file_, in_ != nullptr ? in_->offset() : 0, number_});
    return absl::OkStatus();
  }
  absl::Status Restore(CounterReader& from) override {
    MESHWORK_ASSIGN_OR_RETURN(file_, from.Next(0, num_files()));
    MESHWORK_ASSIGN_OR_RETURN(const int64_t offset, from.Next());
    MESHWORK_ASSIGN_OR_RETURN(const int64_t number, from.Next());
    if (offset == 0 || file_ == num_files()) return absl::OkStatus();
    const absl::Status there = GoTo(offset);
    number_ = number;
    return there.ok() ? there : Annotate(there, stage_->name + ": ");
  }

 private:
  int64_t num_files() const { return static_cast<int64_t>(stage_->paths.size()); }

  absl::Status Open() {
    MESHWORK_ASSIGN_OR_RETURN(ByteReader in, ByteReader::Open(stage_->paths[static_cast<size_t>(file_)]));
    in_ = std::make_unique<ByteReader>(std::move(in));
    reader_ = stage_->make();
    return reader_->Begin(*in_, number_);
  }
  absl::StatusOr<std::optional<Example>> NextOfFile() {
    if (in_ == nullptr) MESHWORK_RETURN_IF_ERROR(Open());
    return reader_->Next(*in_, number_);
  }
  absl::Status GoTo(int64_t offset) {
    MESHWORK_RETURN_IF_ERROR(Open());
    return in_->SkipTo(offset);
  }

  int64_t file_ = 0, number_ = 0;
  std::unique_ptr<ByteReader> in_;  // null: the file has not been opened
  std::unique_ptr<FormatReader> reader_;
};

std::unique_ptr<Walk> Files::Begin(uint64_t) const { return std::make_unique<FilesWalk>(*this); }

}  // namespace

absl::StatusOr<StagePtr> FileSource(std::string name, std::string kind, std::vector<std::string> paths,
                                    MakeFormatReader make) {
  if (paths.empty()) return InvalidArgument("{}: there are no paths; give at least one.", name);
  return std::make_shared<const Files>(std::move(name), std::move(kind), std::move(paths), std::move(make));
}

}  // namespace meshwork::internal
