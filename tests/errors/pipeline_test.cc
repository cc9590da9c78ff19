// What is refused of pipelines and their files. DIR stands for a directory of this run.
#include "meshwork/train/data/pipeline.h"

#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/base/hash.h"
#include "meshwork/train/data/pipeline_files.h"
#include "support/idx_file.h"
#include "support/temp_dir.h"
#include "train/data/pipeline_values.h"

namespace meshwork::pipeline_test {
namespace {

absl::Status EndOfPipeline(const Pipeline& pipeline) {
  PipelineIterator walk = pipeline.Begin();
  for (;;) {
    const absl::StatusOr<std::optional<Example>> element = walk.Next();
    if (!element.ok() || !element->has_value()) return element.status();
  }
}

TEST(PipelineErrors, Descriptions) {
  const Pipeline p = Numbers(5);
  const auto same = [](const Example& e) { return e; };
  ExpectErrors(
      "pipeline",
      {
          MISTAKE(Pipeline::Range(-1).status()),
          MISTAKE(Pipeline::FromFunction(-3, Number).status()),
          MISTAKE(Pipeline::FromFunction(3, nullptr).status()),
          MISTAKE(Pipeline::FromFunction(3, Number, {.threads = -1}).status()),
          MISTAKE(Pipeline::Generate(nullptr).status()),
          MISTAKE(Pipeline::Zip({}).status()),
          MISTAKE(Pipeline::Zip({p, p.Take(-1)}).status()),
          MISTAKE(Pipeline::Interleave({}).status()),
          MISTAKE(Pipeline::Interleave({p}, {.cycle = 0}).status()),
          MISTAKE(Pipeline::Interleave({p}, {.block = 0}).status()),
          MISTAKE(p.Map(nullptr).status()),
          MISTAKE(p.Map(same, {.threads = 100000}).status()),
          MISTAKE(p.Filter(nullptr).status()),
          MISTAKE(p.Shuffle(0, 7).status()),
          MISTAKE(p.Repeat(-1).status()),
          MISTAKE(p.Batch(0).status()),
          MISTAKE(p.Batch(0).Shuffle(0, 1).status()),
          MISTAKE(p.PaddedBatch(0).status()),
          MISTAKE(p.PaddedBatch(2, {.shapes = {{"x", {-2}}}}).status()),
          MISTAKE(p.BucketBySequenceLength(nullptr, {2}, {1, 1}).status()),
          MISTAKE(p.BucketBySequenceLength(LengthOf, {}, {1}).status()),
          MISTAKE(p.BucketBySequenceLength(LengthOf, {2, 2}, {1, 1, 1}).status()),
          MISTAKE(p.BucketBySequenceLength(LengthOf, {2, 4}, {1, 1}).status()),
          MISTAKE(p.BucketBySequenceLength(LengthOf, {2}, {1, 1}, {.pad_to_boundary = true}).status()),
          MISTAKE(p.BucketBySequenceLength(LengthOf, {2}, {1, 0}).status()),
          MISTAKE(p.Shard(4, 4).status()),
          MISTAKE(p.Shard(-1, 4).status()),
          MISTAKE(p.Take(-1).status()),
          MISTAKE(p.Skip(-1).status()),
          MISTAKE(p.Prefetch(0).status()),
          MISTAKE(p.Batch(0).Begin().Next()),
          MISTAKE(p.Batch(0).Begin("")),
          MISTAKE(Number(1).Get("y")),
          MISTAKE(Number(1).GetText("x")),
      });
}

TEST(PipelineErrors, Elements) {
  const Pipeline p = Numbers(5);
  const auto from_third_on = [&](const Example& other) {
    return EndOfPipeline(p.Map([=](const Example& e) { return NumberOf(e) < 2 ? e : other; }).Batch(3));
  };
  const auto throws = [&](int what) {
    return EndOfPipeline(p.Map([what](const Example& e) -> Example {
      if (what == 0) throw std::runtime_error("boom");
      if (what == 1) throw std::bad_alloc();
      return Number(static_cast<int64_t>(e["y"].values<float>()[0]));
    }));
  };
  const auto part = [](auto load) {
    return EndOfPipeline(Pipeline::From(Dataset::FromParts({{3, load}}).value()));
  };
  const auto no_memory = []() -> absl::StatusOr<Columns> { throw std::bad_alloc(); };
  const auto no_file = []() -> absl::StatusOr<Columns> {
    return absl::NotFoundError("a.npy: is not there.");
  };
  Example text;
  text.SetText("line", "x");
  Example two = Number(1);
  two.Set("y", Tensor::Zeros({F32, {2}}));
  const auto fails = [](const Example&) -> absl::StatusOr<bool> { return InvalidArgument("no idea."); };
  const Pipeline ragged = Pipeline::FromFunction(5, Ragged);
  const auto fails_of = [](const Example&) -> absl::StatusOr<int64_t> { return InvalidArgument("no idea."); };
  const auto negative = [](const Example&) -> absl::StatusOr<int64_t> { return -1; };
  const auto pads = [&](const Example& third, PaddingOptions options) {
    return EndOfPipeline(Pipeline::FromFunction(3, [&](int64_t i) {
                           return i < 2 ? Ragged(0) : third;
                         }).PaddedBatch(3, std::move(options)));
  };
  const auto generator = []() -> Pipeline::Generator { return []() { return InvalidArgument("no more."); }; };
  ExpectErrors("pipeline_elements",
               {
                   MISTAKE(EndOfPipeline(Pipeline::Zip({p, p}))),
                   MISTAKE(from_third_on(text)),
                   MISTAKE(from_third_on(two)),
                   MISTAKE(from_third_on(Example())),
                   MISTAKE(from_third_on(Example{{"x", Tensor::Zeros({F32, {}})}})),
                   MISTAKE(from_third_on(Example{{"x", Tensor()}})),
                   MISTAKE(EndOfPipeline(p.Map([](auto) { return Example(); }).Batch(2))),
                   MISTAKE(EndOfPipeline(p.Batch(int64_t{1} << 41))),
                   MISTAKE(pads(Ragged(1), {.shapes = {{"x", {3}}}})),
                   MISTAKE(pads(Ragged(1), {.shapes = {{"x", {3, 3}}}})),
                   MISTAKE(pads(Ragged(1), {.shapes = {{"y", {3}}}})),
                   MISTAKE(pads(Ragged(1), {.values = {{"x1", 0}}})),
                   MISTAKE(pads(Ragged(1), {.values = {{"x", 0.5}}})),
                   MISTAKE(pads(Ragged(1), {.shapes = {{"x", {int64_t{1} << 41}}}})),
                   MISTAKE(pads(text, {})),
                   MISTAKE(pads(Number(1), {})),
                   MISTAKE(pads(Example{{"x", Tensor::Zeros({F32, {2}})}}, {})),
                   MISTAKE(EndOfPipeline(ragged.BucketBySequenceLength(fails_of, {3}, {1, 1}))),
                   MISTAKE(EndOfPipeline(ragged.BucketBySequenceLength(negative, {3}, {1, 1}))),
                   MISTAKE(EndOfPipeline(
                       ragged.BucketBySequenceLength(LengthOf, {3}, {1}, {.pad_to_boundary = true}))),
                   MISTAKE(EndOfPipeline(p.Filter(fails))),
                   MISTAKE(EndOfPipeline(Pipeline::Generate(generator))),
                   MISTAKE(throws(0)),
                   MISTAKE(throws(1)),
                   MISTAKE(throws(2)),
                   MISTAKE(part(no_memory)),
                   MISTAKE(part(no_file)),
               });
}

// A position with these counters and the right hash.
std::string MadeUp(const Pipeline& pipeline, std::string_view counters) {
  const std::string text = fmt::format("{}; {}", pipeline.ToString(), counters);
  return fmt::format("{}; {:016x}", text, StableHash(text));
}

TEST(PipelineErrors, Positions) {
  const Pipeline p = Numbers(5);
  const auto at = [](const Pipeline& pipeline, int n) {
    PipelineIterator walk = pipeline.Begin();
    for (int i = 0; i < n; ++i) EXPECT_TRUE(walk.Next().ok());
    return walk.Save().value();
  };
  // Inputs that give less than they did.
  int64_t left = 5;
  const Pipeline shrinks = Pipeline::Generate([&] {
    return [&left, i = int64_t{0}]() mutable -> absl::StatusOr<std::optional<Example>> {
      if (i == left) return std::nullopt;
      return Number(i++);
    };
  });
  const auto shrunk = [&](const Pipeline& pipeline) {
    left = 5;
    const std::string position = at(pipeline, 2);
    left = 1;
    return pipeline.Begin(position);
  };
  const Pipeline fewer = p.Filter([&](const Example& e) { return NumberOf(e) < left; });
  const Pipeline shuffled = p.Shuffle(2, 1);
  const auto changes = [&](const Example& e) -> int64_t { return left == 5 && NumberOf(e) == 0 ? 5 : 0; };
  std::string damaged = at(p, 3);
  damaged.back() = 'x';
  ExpectErrors("pipeline_positions", {
                                         MISTAKE(p.Begin("page 7")),
                                         MISTAKE(p.Begin(damaged)),
                                         MISTAKE(p.Begin(at(shuffled, 3))),
                                         MISTAKE(p.Begin(MadeUp(p, "3,x"))),
                                         MISTAKE(p.Begin(MadeUp(p, "3"))),
                                         MISTAKE(p.Begin(MadeUp(p, "3,6"))),
                                         MISTAKE(p.Begin(MadeUp(p, "3,3,3"))),
                                         MISTAKE(shuffled.Begin(MadeUp(shuffled, "3,4,0,4,4,4"))),
                                         MISTAKE(shrunk(shrinks)),
                                         MISTAKE(shrunk(fewer.Cache())),
                                         MISTAKE(shrunk(fewer.Shuffle(2, 1))),
                                         MISTAKE(shrunk(p.BucketBySequenceLength(changes, {3}, {2, 2}))),
                                     });
}

class PipelineFileErrors : public TempDirTest {
 protected:
  void Expect(std::string_view area, const std::vector<Mistake>& mistakes) {
    ExpectErrors(area, mistakes, {{dir(), "DIR"}});
  }
};

TEST_F(PipelineFileErrors, TextAndCsv) {
  const auto lines = [&](const std::string& text, int64_t longest = 100) {
    return EndOfPipeline(TextLines({File("f.txt", text)}, {.longest = longest}));
  };
  const auto csv = [&](const std::string& text, const CsvOptions& options = {}) {
    return EndOfPipeline(Csv({File("f.csv", text)}, options));
  };
  const auto age = [&](const std::string& value, DType dtype = I32) {
    return csv("name,age\nAda," + value + "\n", {.columns = {{"age", dtype}}});
  };
  const auto shortened = [&](const std::string& text) {
    const Pipeline pipeline = TextLines({File("short.txt", "one\ntwo\nthree\n")});
    PipelineIterator walk = pipeline.Begin();
    EXPECT_TRUE(walk.Next().ok() && walk.Next().ok());
    const std::string position = walk.Save().value();
    File("short.txt", text);
    return pipeline.Begin(position);
  };
  const std::string zipped = Gzip(std::string(1000, 'x') + "\n");
  Expect("pipeline_files",
         {
             MISTAKE(TextLines({}).status()),
             MISTAKE(EndOfPipeline(TextLines({Path("none")}))),
             MISTAKE(lines("short\n" + std::string(101, 'x'))),
             MISTAKE(lines(zipped.substr(0, 15))),
             MISTAKE(shortened("one\n")),
             MISTAKE(Csv({}).status()),
             MISTAKE(Csv({"f"}, {.columns = {{"x", BF16}}}).status()),
             MISTAKE(Csv({"f"}, {.columns = {{.name = "x", .dtype = I32, .missing = 0.5}}}).status()),
             MISTAKE(Csv({"f"}, {.columns = {{"x"}, {"y"}, {"x", I32}}}).status()),
             MISTAKE(Csv({"f"}, {.delimiter = '"'}).status()),
             MISTAKE(csv("")),
             MISTAKE(csv("\xef?x\n")),
             MISTAKE(csv("name,age\n", {.columns = {{"agee"}}})),
             MISTAKE(csv("age,age\n", {.columns = {{"age"}}})),
             MISTAKE(csv("\x1b[31m\"\n,b\n1,2\n", {.columns = {{"agee"}}})),
             MISTAKE(csv("age\n\"\x1b[31m\nFAKE: ok\"\n", {.columns = {{"age", F32}}})),
             MISTAKE(csv("a,b\n1,2\n\n3\n")),
             MISTAKE(csv("a;b\n1,2\n")),
             MISTAKE(csv("a,b\n1,\"2\"x\n")),
             MISTAKE(csv("a,b\n1,\"2\n\n")),
             MISTAKE(csv("a,b\n1,\"2\n" + std::string(40, 'x'), {.longest = 30})),
             MISTAKE(age("old")),
             MISTAKE(age("2.5")),
             MISTAKE(age("3000000000")),
             MISTAKE(age("1e40", F32)),
             MISTAKE(age("")),
             MISTAKE(age("NA")),
         });
}

TEST_F(PipelineFileErrors, TfRecords) {
  const auto written = [&](const std::vector<std::string>& records) {
    TfRecordWriter out = TfRecordWriter::Create(Path("f.tfrecord")).value();
    for (const std::string& record : records) EXPECT_TRUE(out.Write(record).ok());
    EXPECT_TRUE(out.Close().ok());
    std::ifstream file(Path("f.tfrecord"), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string two = written({"first", "second"});
  const auto read = [&](const std::string& bytes, int64_t longest = 100) {
    return EndOfPipeline(TfRecords({File("g.tfrecord", bytes)}, {.longest = longest}));
  };
  const auto changed = [&](size_t at) {
    std::string bytes = two;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return read(bytes);
  };
  const auto after_close = [&] {
    TfRecordWriter out = TfRecordWriter::Create(Path("h")).value();
    EXPECT_TRUE(out.Close().ok());
    return out.Write("x");
  };
  const auto full = [](size_t bytes) {
    TfRecordWriter out = TfRecordWriter::Create("/dev/full").value();
    const absl::Status status = out.Write(std::string(bytes, 'x'));
    return status.ok() ? out.Close() : status;
  };
  Expect("tf_records", {
                           MISTAKE(TfRecords({}).status()),
                           MISTAKE(read(two.substr(0, 3))),
                           MISTAKE(read(two.substr(0, 30))),
                           MISTAKE(read(two.substr(0, two.size() - 1))),
                           MISTAKE(changed(0)),
                           MISTAKE(changed(35)),
                           MISTAKE(read("these bytes are no records, but text")),
                           MISTAKE(read(two, 5)),
                           MISTAKE(TfRecordWriter::Create(Path("none/f"))),
                           MISTAKE(after_close()),
                           MISTAKE(full(10)),
                           MISTAKE(full(1 << 20)),
                       });
}

TEST_F(PipelineFileErrors, TfExamples) {
  Example example{{"image", Tensor::Zeros({F32, {3}})},
                  {"wide", Tensor::From<int64_t>({}, {int64_t{1} << 40})}};
  example.SetText("name", "x");
  const std::string record = SerializeTfExample(example).value();
  const auto parse = [&](const TfFeature& feature) { return ParseTfExample(record, {feature}); };
  Example of_text;
  of_text.SetText("record", "hello");
  Example parts;
  parts.SetText("x", "");
  std::string damaged = record;
  damaged[damaged.find("image") + 9] = '\x7f';
  // {"t": no list}
  const std::string no_value = "\x0a\x05\x0a\x03\x0a\x01t";
  Expect("tf_examples", {
                            MISTAKE(ParseTfExample("hello", {})),
                            MISTAKE(ParseTfExample(damaged, {{"image", F32, {3}}})),
                            MISTAKE(parse({"imgae"})),
                            MISTAKE(parse({"weights"})),
                            MISTAKE(parse({"image", F32, {4}})),
                            MISTAKE(parse({"image", I64, {3}})),
                            MISTAKE(parse({"image", F64, {3}})),
                            MISTAKE(parse({.name = "image", .is_text = true})),
                            MISTAKE(parse({"wide", I32})),
                            MISTAKE(parse({"name"})),
                            MISTAKE(ParseTfExample(no_value, {{.name = "t", .is_text = true}})),
                            MISTAKE(TfExampleParser({})(Number(1))),
                            MISTAKE(SerializeTfExample(Example{{"x", Tensor::Zeros({F64, {2}})}})),
                            MISTAKE(SerializeTfExample(Example{{"x", Tensor()}})),
                        });
}

}  // namespace
}  // namespace meshwork::pipeline_test
