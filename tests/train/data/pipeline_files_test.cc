// Pipelines over files: lines, CSV and TFRecord, plain and gzipped, whole, cut off and damaged.
#include "meshwork/train/data/pipeline_files.h"

#include <cmath>
#include <filesystem>
#include <iterator>

#include "gmock/gmock.h"
#include "support/contents.h"
#include "support/idx_file.h"
#include "support/temp_dir.h"

namespace meshwork::pipeline_files_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> TextsOf(PipelineIterator walk, std::string_view name) {
  std::vector<std::string> texts;
  for (const Example& e : walk) texts.emplace_back(e.text(name));
  return texts;
}
std::vector<std::string> TextsOf(const Pipeline& pipeline, std::string_view name) {
  return TextsOf(pipeline.Begin(), name);
}

// The error that ends the iteration, and how many elements came before it.
std::pair<int, absl::Status> EndOf(const Pipeline& pipeline) {
  PipelineIterator walk = pipeline.Begin();
  for (int n = 0;; ++n) {
    const absl::StatusOr<std::optional<Example>> element = walk.Next();
    if (!element.ok()) return {n, element.status()};
    if (!element->has_value()) return {n, absl::OkStatus()};
  }
}

std::string ReadFixture(std::string_view name) {
  return Contents(fmt::format("{}/fixtures/{}", MESHWORK_TEST_DIR, name));
}

// A walk from each position gives the texts that follow there.
void ExpectPositions(const Pipeline& pipeline, std::string_view name) {
  const std::vector<std::string> all = TextsOf(pipeline, name);
  PipelineIterator walk = pipeline.Begin();
  for (size_t k = 0; k <= all.size(); ++k) {
    const std::string position = walk.Save().value();
    EXPECT_THAT(TextsOf(pipeline.Begin(position).value(), name),
                ElementsAreArray(all.begin() + static_cast<std::ptrdiff_t>(k), all.end()));
    ASSERT_TRUE(walk.Next().ok());
  }
}

class PipelineFilesTest : public TempDirTest {
 protected:
  std::vector<float> Column(const Pipeline& pipeline, std::string_view name) {
    std::vector<float> values;
    for (const Example& e : pipeline) values.push_back(e[name].values<float>()[0]);
    return values;
  }
};

TEST_F(PipelineFilesTest, LinesOfAllFiles) {
  const std::string a = File("a", "one\ntwo\r\n\nfour"), b = File("b.gz", Gzip("five\n")),
                    empty = File("e", "");
  EXPECT_THAT(TextsOf(TextLines({a, empty, b}), "line"), ElementsAre("one", "two", "", "four", "five"));
  EXPECT_THAT(TextsOf(TextLines({File("n", "\n")}), "line"), ElementsAre(""));
  EXPECT_THAT(TextsOf(TextLines({empty}), "line"), IsEmpty());
  EXPECT_THAT(TextsOf(Pipeline::Interleave({TextLines({a}), TextLines({b})}), "line"),
              ElementsAre("one", "five", "two", "", "four"));
  ExpectPositions(TextLines({a, empty, b, a}), "line");
}

// Lines that end anywhere within a chunk of the file, and lines longer than a chunk.
TEST_F(PipelineFilesTest, LinesLongerThanAPortion) {
  std::vector<std::string> lines;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    lines.push_back(std::string(static_cast<size_t>(i * i * 700), static_cast<char>('a' + i % 26)));
    text += lines.back() + (i % 2 == 0 ? "\n" : "\r\n");
  }
  EXPECT_EQ(TextsOf(TextLines({File("t", text)}), "line"), lines);
  EXPECT_EQ(TextsOf(TextLines({File("t.gz", Gzip(text))}), "line"), lines);
  // A gzipped file may have several members.
  EXPECT_THAT(TextsOf(TextLines({File("m.gz", Gzip("a\nb") + Gzip("") + Gzip("c\nd\n"))}), "line"),
              ElementsAre("a", "bc", "d"));
}

TEST_F(PipelineFilesTest, CsvReadsNumbersAndTexts) {
  const std::string text =
      "id,\"the \"\"name\"\"\", x ,y\r\n"
      "1,\"a, b\",0.5,-1e300\r\n"
      "\r\n"
      "-2147483648,\"two\nlines\",  +2.5\t,NA\n"
      "3,,\"7\",0";
  const CsvOptions options = {.columns = {{"id", I32},
                                          {.name = "the \"name\"", .is_text = true},
                                          {"x"},
                                          {.name = "y", .dtype = F64, .missing = -7.5}}};
  for (const std::string& contents : {text, "\xEF\xBB\xBF" + text, text + "\n", Gzip(text)}) {
    const Pipeline rows = Csv({File("f.csv", contents)}, options);
    std::vector<int32_t> ids;
    std::vector<double> ys;
    for (const Example& e : rows) {
      ids.push_back(e["id"].values<int32_t>()[0]);
      ys.push_back(e["y"].values<double>()[0]);
    }
    EXPECT_THAT(ids, ElementsAre(1, -2147483648, 3));
    EXPECT_THAT(ys, ElementsAre(-1e300, -7.5, 0));
    EXPECT_THAT(Column(rows, "x"), ElementsAre(0.5f, 2.5f, 7));
    EXPECT_THAT(TextsOf(rows, "the \"name\""), ElementsAre("a, b", "two\nlines", ""));
    ExpectPositions(rows, "the \"name\"");
  }
}

TEST_F(PipelineFilesTest, CsvColumnsByHeaderOrByName) {
  const std::string a = File("a", "x,y\n1,2\n3,4\n"), b = File("b", "y,x\n6,5\n"),
                    bare = File("c", "7;8\n9;10\n");
  EXPECT_THAT(Column(Csv({a, b}), "x"), ElementsAre(1, 3, 5));  // each file has a header of its own
  EXPECT_THAT(Column(Csv({a, b}), "y"), ElementsAre(2, 4, 6));
  EXPECT_THAT(Column(Csv({bare}, {.names = {"x", "y"}, .delimiter = ';'}), "y"), ElementsAre(8, 10));
  const Example one =
      Csv({bare}, {.columns = {{"q", I64}}, .names = {"p", "q"}, .delimiter = ';'}).Begin().Next()->value();
  EXPECT_EQ(one.columns().size(), 1u);
  EXPECT_EQ(one["q"].values<int64_t>()[0], 8);
  EXPECT_THAT(Column(Csv({File("h", "x\n")}), "x"), IsEmpty());
  const std::vector<float> gaps = Column(
      Csv({File("g", "x,y\n,1\n-,2\n")}, {.columns = {{.name = "x", .missing = NAN}}, .missing = {"", "-"}}),
      "x");
  EXPECT_TRUE(std::isnan(gaps[0]) && std::isnan(gaps[1]));
  // Rows can be batched like other examples.
  const Example batch = Csv({a, b}, {.columns = {{"x"}}}).Batch(3).Begin().Next()->value();
  EXPECT_THAT(batch["x"].values<float>(), ElementsAre(1, 3, 5));
}

// As many columns as a data set of genes or words has: a search through all columns for each one would not end.
TEST_F(PipelineFilesTest, CsvOfManyColumns) {
  constexpr int kColumns = 200'000;
  std::string names, row;
  for (int i = 0; i < kColumns; ++i) {
    names += fmt::format("{}c{}", i == 0 ? "" : ",", i);
    row += fmt::format("{}{}", i == 0 ? "" : ",", i);
  }
  const std::string path = File("wide.csv", names + "\n" + row + "\n" + row + "\n");
  int rows = 0;
  for (const Example& example : Csv({path})) {
    ASSERT_EQ(std::ssize(example.columns()), kColumns);
    for (const int i : {0, 1, kColumns / 2, kColumns - 1}) {
      EXPECT_EQ(example.columns()[i].first, fmt::format("c{}", i));
      EXPECT_EQ(example.columns()[i].second.values<float>()[0], static_cast<float>(i));
    }
    ++rows;
  }
  EXPECT_EQ(rows, 2);
}

// Whatever a file contains, reading ends with a status. A truncated file gives no rows that are not in it.
TEST_F(PipelineFilesTest, NoCsvDoesHarm) {
  const std::string text = "a,\"b\"\n1,\"2\"\n\"3\",4\r\n";
  const CsvOptions options = {.columns = {{"a", I64}, {.name = "b", .is_text = true}}};
  for (size_t at = 0; at < text.size(); ++at) {
    EXPECT_LE(EndOf(Csv({File("f", text.substr(0, at))}, options)).first, 2);
    for (char byte : {'\0', '"', ',', '\n', '\r', 'x', '\xef', '\xff'}) {
      std::string damaged = text;
      damaged[at] = byte;
      const auto [rows, status] = EndOf(Csv({File("f", damaged)}, options));
      EXPECT_LE(rows, 3);
      EXPECT_TRUE(status.ok() || MessageOf(status).starts_with("Csv: " + dir() + "/f:")) << status;
    }
  }
}

const std::vector<TfFeature>& FixtureFeatures() {
  static const auto* features = new std::vector<TfFeature>{
      {"image", F32, {3, 1}}, {"label", I32}, {"wide", I64, {2}}, {.name = "name", .is_text = true}};
  return *features;
}

// Files that TensorBoard's writer and Google's protobuf have written (fixtures/tf_records.py).
TEST_F(PipelineFilesTest, TfRecordsOfOthersAreRead) {
  for (const char* name : {"examples.tfrecord", "examples.tfrecord.gz"}) {
    int64_t i = 0;
    for (const Example& e : TfRecords({fmt::format("{}/fixtures/{}", MESHWORK_TEST_DIR, name)})
                                .Map(TfExampleParser(FixtureFeatures()), {.threads = 2})) {
      const auto f = static_cast<float>(i);
      EXPECT_EQ(e["image"].shape(), Shape({3, 1}));
      EXPECT_THAT(e["image"].values<float>(),
                  ElementsAre(f + 0.25f, -f, static_cast<float>(1e-30 * static_cast<double>(i))));
      EXPECT_EQ(e["label"].values<int32_t>()[0], -i);
      EXPECT_THAT(e["wide"].values<int64_t>(), ElementsAre((int64_t{1} << 62) + i, INT64_MIN));
      EXPECT_EQ(e.text("name"), std::string(static_cast<size_t>(i * 100), 'n') + std::string("\0\xff", 2) +
                                    static_cast<char>(i));
      ++i;
    }
    EXPECT_EQ(i, 5);
  }
}

// Records of those files that are read and written again have the same bytes: map entries are sorted by name, as by the
// script's deterministic serialization.
TEST_F(PipelineFilesTest, TfRecordsAreWrittenAsOthersWriteThem) {
  const std::string path = Path("again.tfrecord"), zipped = Path("again.tfrecord.gz");
  TfRecordWriter out = TfRecordWriter::Create(path).value(), gz = TfRecordWriter::Create(zipped).value();
  for (const Example& e : TfRecords({fmt::format("{}/fixtures/examples.tfrecord", MESHWORK_TEST_DIR)})) {
    EXPECT_TRUE(out.Write(e.text("record")).ok());
    EXPECT_TRUE(gz.Write(e.text("record")).ok());
    const Example parsed = ParseTfExample(e.text("record"), FixtureFeatures()).value();
    const Example again = ParseTfExample(SerializeTfExample(parsed).value(), FixtureFeatures()).value();
    EXPECT_THAT(again["image"].values<float>(), ElementsAreArray(parsed["image"].values<float>()));
    EXPECT_THAT(again["wide"].values<int64_t>(), ElementsAreArray(parsed["wide"].values<int64_t>()));
    EXPECT_EQ(again["label"].values<int32_t>()[0], parsed["label"].values<int32_t>()[0]);
    EXPECT_EQ(again.text("name"), parsed.text("name"));
  }
  EXPECT_TRUE(out.Close().ok() && gz.Close().ok());
  EXPECT_EQ(Contents(path), ReadFixture("examples.tfrecord"));
  EXPECT_LT(std::filesystem::file_size(zipped), std::filesystem::file_size(path));
  EXPECT_EQ(TextsOf(TfRecords({zipped}), "record"), TextsOf(TfRecords({path}), "record"));
  ExpectPositions(TfRecords({path, zipped, path}), "record");
}

TEST_F(PipelineFilesTest, DamagedTfRecordsAreRefused) {
  std::string text;
  const std::string path = Path("small");
  TfRecordWriter out = TfRecordWriter::Create(path).value();
  for (const char* record : {"", "a", "hello"}) ASSERT_TRUE(out.Write(record).ok());
  ASSERT_TRUE(out.Close().ok());
  const std::string whole = Contents(path);
  ASSERT_EQ(whole.size(), 3 * 16 + 6u);
  const size_t ends[] = {0, 16, 33, whole.size()};
  for (size_t at = 0; at <= whole.size(); ++at) {
    const auto before = std::upper_bound(std::begin(ends), std::end(ends), at) - std::begin(ends) - 1;
    const auto [n, status] = EndOf(TfRecords({File("cut", whole.substr(0, at))}));
    EXPECT_EQ(n, before);
    EXPECT_EQ(status.ok(), at == ends[before]);
    if (at == whole.size()) break;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const auto [m, why] = EndOf(TfRecords({File("bad", damaged)}));
      EXPECT_EQ(m, before);
      EXPECT_FALSE(why.ok());
    }
  }
}

// Records that are no Example, or a damaged one: a status, or other values, and no harm.
TEST_F(PipelineFilesTest, NoTfExampleDoesHarm) {
  const std::string record =
      TextsOf(TfRecords({fmt::format("{}/fixtures/examples.tfrecord", MESHWORK_TEST_DIR)}), "record")[0];
  int refused = 0;
  for (size_t at = 0; at < record.size(); ++at) {
    EXPECT_FALSE(ParseTfExample(record.substr(0, at), FixtureFeatures()).ok());
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = record;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      if (!ParseTfExample(damaged, FixtureFeatures()).ok()) ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(record.size()));
}

// Lists that are not packed, unknown fields, and entries that come twice, of which the last counts.
TEST_F(PipelineFilesTest, TfExamplesInOtherForms) {
  const auto bytes = [](int number, const std::string& content) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
  };
  const auto entry = [&](int kind, const std::string& list) {
    return bytes(1, bytes(1, "x") + bytes(2, bytes(kind, list)) + "\x18\x05");
  };
  const std::string twice =
      bytes(9, "?") + bytes(1, entry(3, std::string("\x08\x05\x08\x06", 4)) +
                                   entry(3, std::string("\x08\x07\x0a\x02\x08\x09", 6)));
  EXPECT_THAT(ParseTfExample(twice, {{"x", I64, {3}}}).value()["x"].values<int64_t>(), ElementsAre(7, 8, 9));
  const std::string floats = bytes(1, entry(2, std::string("\x0d\x00\x00\x80\x3f", 5)));
  EXPECT_THAT(ParseTfExample(floats, {{"x"}}).value()["x"].values<float>(), ElementsAre(1.0f));
  const std::string empty = bytes(1, bytes(1, bytes(1, "x")));
  EXPECT_EQ(ParseTfExample(empty, {{"x", F32, {0}}}).value()["x"].num_elements(), 0);
}

}  // namespace
}  // namespace meshwork::pipeline_files_test
