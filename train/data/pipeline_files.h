// Examples from files, streamed: lines of text, CSV, TFRecord. Each is a source of a Pipeline (train/data/pipeline.h).
//
//   Pipeline rows = Csv({"a.csv", "b.csv.gz"}, {.columns = {{"age"}, {"income", F64}, {"label", I32}}});
//   Pipeline lines = TextLines({"corpus.txt"}).Map(Tokenize, {.threads = 2});
//   Pipeline images = TfRecords(paths).Map(TfExampleParser({{"image", F32, {784}}, {"label", I64}}), {.threads = 2});
//
// Files are read one after the other, in the order given. Each is plain or gzipped; its content decides. At any moment
// one file is open, with a quarter of a MiB of it and one record in memory. To read several files at a time, give each
// a pipeline and put them together by Pipeline::Interleave.
//
// A position is the file, by its place in the list, and the byte. A plain file is read on from there, a gzipped one is
// unpacked again from its beginning. The list must be the same, but the files may lie elsewhere.
//
// Errors name the file, and the line or the record and its byte. A file is opened when its first record is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/ir/type.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// ---- Text.

struct TextLinesOptions {
  int64_t longest = int64_t{64} << 20;  // bytes of a line; a longer one is an error
};

// Examples with one text, "line": each line without its end, "\n" or "\r\n". The last line needs no end.
Pipeline TextLines(std::vector<std::string> paths, TextLinesOptions options = {});

// ---- CSV (RFC 4180).

struct CsvColumn {
  std::string name = {};
  DType dtype = F32;                   // f32, f64, i32 or i64: a scalar column of the example
  std::optional<double> missing = {};  // stands for a missing value; without it, a missing value is an error
  bool is_text = false;                // a text of the example instead, for Map to make numbers of
};

struct CsvOptions {
  std::vector<CsvColumn> columns =
      {};  // which columns are read; each once; empty: all, as f32, in the file's order
  std::vector<std::string> names = {};  // of all columns; empty: each file's first line says them
  char delimiter = ',';
  std::vector<std::string> missing = {"", "NA"};  // how a missing value is written
  int64_t longest = int64_t{64} << 20;            // bytes of a record; a longer one is an error
};

// An example per record: a record is a line, or several lines if quotes enclose line ends. A field may stand in quotes
// ("…"), in which "" is a quote. Spaces around numbers do not count; empty lines and a byte order mark are skipped.
// Errors of the iteration: a column is not there, or twice; a record has another number of fields than there are names;
// a value is missing, or no number of its type; something follows a closing quote; a quote is not closed.
Pipeline Csv(std::vector<std::string> paths, CsvOptions options = {});

// ---- TFRecord (tensorflow.org/tutorials/load_data/tfrecord).
//
// A file is a sequence of records: the length, 8 bytes, little-endian; a checksum of it; the bytes; a checksum of
// these. A checksum is a masked CRC-32C.

struct TfRecordOptions {
  int64_t longest = int64_t{1} << 30;  // bytes of a record; a longer one is an error
};

// Examples with one text, "record". Errors of the iteration: a checksum is wrong; the file ends within a record.
Pipeline TfRecords(std::vector<std::string> paths, TfRecordOptions options = {});

// Writes a file of records; gzipped if the path ends in ".gz".
//
//   MESHWORK_ASSIGN_OR_RETURN(TfRecordWriter out, TfRecordWriter::Create("train.tfrecord"));
//   MESHWORK_RETURN_IF_ERROR(out.Write(SerializeTfExample(example).value()));
//   MESHWORK_RETURN_IF_ERROR(out.Close());
class TfRecordWriter {
 public:
  // Replaces the file. Errors: the system's.
  static absl::StatusOr<TfRecordWriter> Create(const std::string& path);
  TfRecordWriter(TfRecordWriter&&) noexcept;
  TfRecordWriter& operator=(TfRecordWriter&&) noexcept;
  ~TfRecordWriter();  // closes the file

  // Errors: the system's; the file is closed.
  absl::Status Write(std::string_view record);
  // Errors: the system's. Once it returns OK, the system has the whole file.
  absl::Status Close();

 private:
  struct File;
  explicit TfRecordWriter(std::unique_ptr<File> file);

  std::unique_ptr<File> file_;
};

// A feature of a tf.train.Example that is wanted: f32 from its float_list, i64 or i32 from its int64_list, as many
// values as the shape has elements; or a text from its bytes_list, which has one value.
struct TfFeature {
  std::string name = {};
  DType dtype = F32;
  Shape shape = {};
  bool is_text = false;
};

// Reads a serialized tf.train.Example. Errors: it is none; a feature is missing, has another kind of list, or another
// number of values; an i32 does not hold a value.
absl::StatusOr<Example> ParseTfExample(std::string_view record, const std::vector<TfFeature>& features);
// For Pipeline::Map: parses the text "record".
Pipeline::MapFunction TfExampleParser(std::vector<TfFeature> features);
// The serialized tf.train.Example: columns as float_list (f32) or int64_list (i32, i64), texts as bytes_list; shapes
// are not kept. Error: a column of another type, or that is not valid.
absl::StatusOr<std::string> SerializeTfExample(const Example& example);

}  // namespace meshwork
