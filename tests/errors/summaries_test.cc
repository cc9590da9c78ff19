// What is refused of event files and of what is logged. DIR stands for a directory of this run, FILE for the writer's
// file.
#include "meshwork/train/log/summaries.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/storage/record_file.h"
#include "meshwork/train/log/images.h"
#include "meshwork/train/log/summary_writer.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace meshwork::summaries_test {
namespace {

using SummaryErrors = TempDirTest;

TEST_F(SummaryErrors, Logging) {
  SummaryWriter log = SummaryWriter::Create(Path("run")).value();
  SummaryWriter closed = SummaryWriter::Create(Path("run")).value();
  ASSERT_TRUE(log.Scalar("loss", 1, 1).ok());
  ASSERT_TRUE(closed.Close().ok());
  File("file", "x");
  const auto create = [&](SummaryOptions options) {
    return SummaryWriter::Create(Path("run"), std::move(options));
  };
  const Tensor image = Tensor::Zeros({F32, {2, 2}});
  // Its elements are never touched.
  const Tensor wide(Type{F32, {1 << 15, 1 << 14, 3}});
  Graph wrong(Mesh::Parse("x=2").value());
  wrong.RecordError("a mistake of the program.");
  ExpectErrors("summaries",
               {
                   MISTAKE(SummaryWriter::Create(Path("file/run"))),
                   MISTAKE(create({.flush_seconds = 0})),
                   MISTAKE(create({.flush_seconds = std::nan("")})),
                   MISTAKE(create({.histogram_buckets = 0})),
                   MISTAKE(create({.purge_step = -1})),
                   MISTAKE(log.Scalar("", 1, 1)),
                   MISTAKE(log.Scalar("\xff", 1, 1)),
                   MISTAKE(log.Histogram("loss", image, 1)),
                   MISTAKE(log.Histogram("w", Tensor(), 1)),
                   MISTAKE(log.Image("x", Tensor(), 1)),
                   MISTAKE(log.Image("x", Tensor::Zeros({F32, {4}}), 1)),
                   MISTAKE(log.Image("x", Tensor::Zeros({F32, {4, 4, 5}}), 1)),
                   MISTAKE(log.Image("x", Tensor::Zeros({F32, {0, 4}}), 1)),
                   MISTAKE(log.Image("x", wide, 1)),
                   MISTAKE(log.Image("x", Tensor::Zeros({I32, {4, 4}}), 1)),
                   MISTAKE(log.Text("notes", "\xff", 1)),
                   MISTAKE(log.Graph(wrong)),
                   MISTAKE(closed.Scalar("loss", 1, 2)),
                   MISTAKE(ImageGrid(image, 2)),
                   MISTAKE(ImageGrid(Tensor::Zeros({F32, {1, 2, 2}}), 0)),
               },
               {{log.path(), "FILE"}, {closed.path(), "FILE"}, {dir(), "DIR"}});
}

// The error of Close if the writer's events cannot be written.
absl::Status CloseOnFullDisk(SummaryWriter& log) {
  const FullDisk full(0);
  log.Scalar("loss", 1, 1).IgnoreError();
  return log.Close();
}

// Logs 80 MiB while the disk is full; then the disk has room again.
absl::Status LogTooMuch(SummaryWriter& log) {
  {
    const FullDisk full(0);
    for (int64_t step = 0; step < 8; ++step) {
      log.Text("notes", std::string(10 << 20, 'x'), step).IgnoreError();
      log.Flush().IgnoreError();
    }
  }
  return log.Close();
}

TEST_F(SummaryErrors, Disks) {
  SummaryWriter first = SummaryWriter::Create(Path("a")).value(),
                second = SummaryWriter::Create(Path("b")).value(),
                third = SummaryWriter::Create(Path("c")).value();
  std::filesystem::remove(third.path());
  RecordWriter ended = RecordWriter::Create(Path("ended")).value();
  ASSERT_TRUE(ended.Close().ok());
  ExpectErrors("summaries_disks",
               {
                   MISTAKE(CloseOnFullDisk(first)),
                   MISTAKE(LogTooMuch(second)),
                   MISTAKE(third.Flush()),
                   MISTAKE(third.Close()),
                   MISTAKE(RecordWriter::Create(Path("none/file"))),
                   MISTAKE(RecordWriter::Create(Path("ended"))),
                   MISTAKE(ended.Write()),
               },
               {{first.path(), "FILE"}, {second.path(), "FILE"}, {third.path(), "FILE"}, {dir(), "DIR"}});
}

TEST_F(SummaryErrors, Reading) {
  std::string file;
  AppendRecord(file, "an event");
  const auto read = [&](const std::string& contents) { return ReadSummaries(File("f", contents)); };
  const auto next = [&](const std::string& contents) {
    RecordReader reader = RecordReader::Open(File("f", contents)).value();
    return reader.Next();
  };
  std::filesystem::create_directory(Path("empty"));
  ExpectErrors("summaries_reading",
               {
                   MISTAKE(ReadSummaries(Path("none"))),
                   MISTAKE(ReadSummaries(Path("empty"))),
                   MISTAKE(read("this is no file of records")),
                   MISTAKE(read(file.substr(0, file.size() - 1) + "x")),
                   MISTAKE(read(file)),
                   MISTAKE(next(file.substr(0, 15))),
               },
               {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::summaries_test
