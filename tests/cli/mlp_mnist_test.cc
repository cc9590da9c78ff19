// examples/mlp_mnist as a shell sees it: what it prints, writes and returns.
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/ir/text.h"
#include "meshwork/train/random.h"
#include "support/golden.h"
#include "train/temp_dir.h"

namespace meshwork {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr int64_t kTrain = 28, kTest = 12;  // with batches of 16, the last one is short

// An IDX file of unsigned bytes.
std::string Idx(const Shape& shape, std::string_view bytes) {
  std::string file = {0, 0, 8, static_cast<char>(shape.size())};
  for (int64_t size : shape)
    for (int shift : {24, 16, 8, 0}) file += static_cast<char>(size >> shift & 0xff);
  return file.append(bytes);
}

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Images(int64_t n) {
  Random random(/*seed=*/1, static_cast<uint64_t>(n));
  std::string pixels;
  for (int64_t i = 0; i < n * 28 * 28; ++i)
    pixels += static_cast<char>(random.Below(4) == 0 ? random.Below(256) : 0);
  return Idx({n, 28, 28}, pixels);
}

std::string Labels(int64_t n) {
  std::string labels;
  for (int64_t i = 0; i < n; ++i) labels += static_cast<char>(i * 7 % 10);
  return Idx({n}, labels);
}

// Each test has a folder with a subfolder data/ of four IDX files.
class MlpMnistTest : public TempDirTest {
 protected:
  MlpMnistTest() {
    std::filesystem::create_directory(data());
    File("data/train-images-idx3-ubyte", Images(kTrain));
    File("data/train-labels-idx1-ubyte", Labels(kTrain));
    File("data/t10k-images-idx3-ubyte", Images(kTest));
    File("data/t10k-labels-idx1-ubyte", Labels(kTest));
  }

  std::string data() const { return Path("data"); }

  static Finished Run(const std::vector<std::string>& args, const std::vector<std::string>& settings = {}) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return RunProcess(MLP_MNIST, args, fmt::format("{}cli-{}-{}", testing::TempDir(), test.name(), getpid()),
                      settings);
  }

  // On the four files, one epoch in batches of 16.
  Finished Train(std::vector<std::string> args) const {
    args.insert(args.begin(), {"--data-dir", data(), "--epochs", "1", "--batch-size", "16"});
    return Run(args);
  }

  // Wrong input: exit code 2, this line on stderr where $ stands for the test's folder, nothing on stdout,
  // and no file made.
  void ExpectRejected(const Finished& finished, std::string_view message) const {
    std::string expected = "mlp_mnist: ";
    for (char c : message) {
      if (c == '$') expected += dir();
      else expected += c;
    }
    EXPECT_EQ(finished.err, expected + "\n");
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.code, 2);
  }

  // Paths below the test's folder, sorted, without data/.
  std::vector<std::string> Written() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir())) {
      const std::string name = std::filesystem::relative(entry.path(), dir()).string();
      if (!name.starts_with("data")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  json ReadJson(std::string_view name) const { return json::parse(Contents(Path(name))); }
};

std::vector<std::string> KeysOf(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// ---- The command line.

TEST_F(MlpMnistTest, HelpListsTheFlags) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--help"}, {"-h"}, {"--epochs", "2", "--help", "--nonsense"}}) {
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err, "");
    ExpectGolden("cli/mlp_mnist_help.txt", finished.out);
  }
}

TEST_F(MlpMnistTest, RefusesFlagsThatAreWrong) {
  const std::string workers_rule = "is not a whole number from 0 to 1024.";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--epoch", "1"}, "there is no flag --epoch; did you mean \"epochs\"? See --help."},
      {{"--mehs=batch=8"}, "there is no flag --mehs; did you mean \"mesh\"? See --help."},
      {{"--gpus", "1"}, "there is no flag --gpus. See --help."},
      {{"--help=yes"}, "--help takes no value."},
      {{"train"}, "\"train\" is not a flag; write --name value."},
      {{"-e", "1"}, "\"-e\" is not a flag; write --name value."},
      {{"--"}, "\"--\" is not a flag; write --name value."},
      {{""}, "\"\" is not a flag; write --name value."},
      {{"--seed", "1", "--epochs"}, "--epochs needs a value."},
      {{"--epochs", "two"}, "--epochs: \"two\" is not a whole number of at least 0."},
      {{"--epochs", "-1"}, "--epochs: \"-1\" is not a whole number of at least 0."},
      {{"--epochs", "1.5"}, "--epochs: \"1.5\" is not a whole number of at least 0."},
      {{"--epochs="}, "--epochs: \"\" is not a whole number of at least 0."},
      {{"--steps", "99999999999999999999"},
       "--steps: \"99999999999999999999\" is not a whole number of at least 0."},
      {{"--batch-size", "0"}, "--batch-size: \"0\" is not a whole number from 1 to 1000000."},
      {{"--batch-size", "1000001"}, "--batch-size: \"1000001\" is not a whole number from 1 to 1000000."},
      {{"--train-examples", "0"}, "--train-examples: \"0\" is not a whole number from 1 to 1000000."},
      {{"--test-examples", "1e3"}, "--test-examples: \"1e3\" is not a whole number from 1 to 1000000."},
      {{"--workers", "100000000000"}, "--workers: \"100000000000\" " + workers_rule},
      {{"--workers", "-1"}, "--workers: \"-1\" " + workers_rule},
      {{"--lr", "0"}, "--lr: \"0\" is not a number above 0."},
      {{"--lr", "-0.1"}, "--lr: \"-0.1\" is not a number above 0."},
      {{"--lr", "fast"}, "--lr: \"fast\" is not a number above 0."},
      {{"--lr", "nan"}, "--lr: \"nan\" is not a number above 0."},
      {{"--lr", "inf"}, "--lr: \"inf\" is not a number above 0."},
      {{"--dtype", "f16"}, "--dtype: \"f16\" is not one of f32, f64."},
      {{"--optimizer", "Adam"},
       "--optimizer: \"Adam\" is not one of sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw; did you "
       "mean "
       "\"adam\"?"},
      {{"--optimizer", "lbfgs"},
       "--optimizer: \"lbfgs\" is not one of sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw."},
      {{"--shuffle", "yes"}, "--shuffle: \"yes\" is not one of on, off."},
      {{"--profile"}, "--profile needs a value."},
      {{"--plot"}, "--plot needs a value."},
      {{"--load"}, "--load needs a value."},
      {{"--explain=yes"}, "--explain takes no value."},
      {{"--explain", "yes"}, "\"yes\" is not a flag; write --name value."},
  };
  for (const auto& [args, message] : cases) {
    SCOPED_TRACE(testing::PrintToString(args));
    ExpectRejected(Run(args), message);
  }
}

TEST_F(MlpMnistTest, RefusesMeshesThatAreNone) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nonsense",
       "--mesh: Mesh: \"nonsense\" in \"nonsense\" is not name=size; write for example batch=4,model=2."},
      {"batch=", "--mesh: Mesh: size \"\" of axis \"batch\" in \"batch=\" is not a whole number below 2^63."},
      {"batch=4,", "--mesh: Mesh: \"batch=4,\" ends with a comma; write for example batch=4,model=2."},
      {"batch=0", "--mesh: Mesh: axis \"batch\" has size 0 in [batch=0]; sizes are at least 1."},
      {"batch=-8", "--mesh: Mesh: axis \"batch\" has size -8 in [batch=-8]; sizes are at least 1."},
      {"batch=2,model=4,batch=2",
       "--mesh: Mesh: axis \"batch\" appears twice in [batch=2, model=4, batch=2]; axis names must be "
       "unique."},
      {"8", "--mesh: Mesh: \"8\" in \"8\" is not name=size; write for example batch=4,model=2."},
      {"[batch=8", "--mesh: Mesh: \"[batch=8\" opens with [ and does not close with ]."},
      {"batch=5000",
       "Executor: mesh [batch=5000] has 5000 devices; one process runs at most 4096 virtual ones. Compile, "
       "verify and "
       "simulate the program instead, or run it on a smaller mesh."},
  };
  for (const auto& [mesh, message] : cases) ExpectRejected(Train({"--mesh", mesh}), message);
}

TEST_F(MlpMnistTest, RefusesOneFileForTwoResultsAndDevices) {
  ExpectRejected(Train({"--save", Path("out"), "--json", Path("out")}),
                 "--save and --json are the same file, $/out; one would overwrite the other.");
  ExpectRejected(Train({"--plot", Path("data/../out"), "--profile", Path("out")}),
                 "--plot and --profile are the same file, $/out; one would overwrite the other.");
  ExpectRejected(
      Train({"--json", "/dev/null"}),
      "/dev/null: is a device or a pipe; files are written whole and renamed, so give the path of a file.");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(MlpMnistTest, RefusesDataWithoutImages) {
  File("data/t10k-images-idx3-ubyte", Images(0));
  File("data/t10k-labels-idx1-ubyte", Labels(0));
  ExpectRejected(Train({}),
                 "$/data: there are 28 training and 0 test images; at least one of each is needed.");
}

// ---- Data files.

TEST_F(MlpMnistTest, RefusesAFolderWithoutData) {
  ExpectRejected(
      Run({"--data-dir", Path("nowhere")}),
      "LoadMnist: \"$/nowhere\" has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz; give the "
      "directory that holds the four MNIST files.");
  ExpectRejected(
      Run({}, {"MNIST_DIR=" + Path("nowhere")}),
      "LoadMnist: \"$/nowhere\" has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz; give the "
      "directory that holds the four MNIST files.");
  std::filesystem::remove(Path("data/t10k-labels-idx1-ubyte"));
  ExpectRejected(
      Train({}),
      "LoadMnist: \"$/data\" has neither t10k-labels-idx1-ubyte nor t10k-labels-idx1-ubyte.gz; give the "
      "directory that holds the four MNIST files.");
}

TEST_F(MlpMnistTest, RefusesDamagedData) {
  const std::string path = "data/train-images-idx3-ubyte";
  File(path, Images(kTrain).substr(0, 10000));
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte: [28,28,28] says 21952 elements but the file holds 9984; it "
      "is incomplete, fetch it again.");
  File(path, Images(kTrain).substr(0, 7));
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte: ends inside its header, in dim 0 of 3; the file is "
      "incomplete, fetch it again.");
  File(path, "<html>404</html>");
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte: starts with 3c 68 74 6d; an IDX file starts with 00 00 08 "
      "and its rank.");
  File(path, Images(kTrain - 1));
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte holds 27 images but $/data/train-labels-idx1-ubyte holds 28 "
      "labels; every image has one label. Do both files come from the same data set?");
  File(path, Idx({kTrain, 14, 56}, std::string(kTrain * 784, '\0')));
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte: its shape is [28,14,56]; MNIST images are [n,28,28].");

  // The same bytes, gzipped and then cut off or damaged: an empty file's header, and a block of no known
  // type.
  std::filesystem::remove(Path(path));
  const std::string header("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  File(path + ".gz", header);
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte.gz: the gzip data is cut off after 0 unpacked bytes; the "
      "file is incomplete, fetch it again.");
  File(path + ".gz", header + "\x07");
  ExpectRejected(
      Train({}),
      "LoadMnist: $/data/train-images-idx3-ubyte.gz: the gzip data is damaged after 0 unpacked bytes "
      "(invalid block type); fetch the file again.");
  File(path + ".gz", Gzip(Images(kTrain)));
  EXPECT_EQ(Train({"--epochs", "0"}).code, 0);

  std::string labels = Labels(kTrain);
  labels[8 + 5] = 10;
  File("data/train-labels-idx1-ubyte", labels);
  ExpectRejected(Train({}), "LoadMnist: $/data/train-labels-idx1-ubyte: label 5 is 10; labels are 0 to 9.");
}

// ---- Outputs that cannot be written: found out before training, and nothing is left behind.

TEST_F(MlpMnistTest, RefusesOutputsThatCannotBeWritten) {
  File("file", "");
  for (const char* flag : {"--save", "--json", "--plot", "--profile"}) {
    ExpectRejected(
        Train({flag, Path("no/such/folder")}),
        "$/no/such/folder: cannot be written: No such file or directory; its directory must exist, be "
        "writable and have room. Nothing was changed.");
    ExpectRejected(
        Train({flag, Path("file/below")}),
        "$/file/below: cannot be written: Not a directory; its directory must exist, be writable and have "
        "room. Nothing was changed.");
    ExpectRejected(
        Train({flag, data()}),
        "$/data: is a directory; files are written whole and renamed, so give the path of a file.");
  }
  ExpectRejected(Train({"--dump", Path("file/below")}),
                 "--dump: cannot make the folder $/file/below: Not a directory.");
  EXPECT_THAT(Written(), ElementsAre("file"));
}

TEST_F(MlpMnistTest, LeavesNothingBehindWhereAnotherInputIsWrong) {
  const std::vector<std::string> outputs = {"--save",    Path("weights"), "--json", Path("json"),
                                            "--dump",    Path("dump"),    "--plot", Path("plot"),
                                            "--profile", Path("trace")};
  auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), outputs.begin(), outputs.end());
    return args;
  };
  EXPECT_EQ(Run(with({"--data-dir", Path("nowhere")})).code, 2);
  EXPECT_EQ(Train(with({"--mesh", "nonsense"})).code, 2);
  EXPECT_EQ(Train(with({"--load", Path("nowhere")})).code, 2);
  EXPECT_EQ(Train({"--dump", Path("dump"), "--json", Path("no/such/folder")}).code, 2);
  EXPECT_THAT(Written(), ElementsAre());
}

TEST_F(MlpMnistTest, KeepsEarlierResultsWhereTheNewOnesCannotBeMade) {
  File("weights", "earlier");
  EXPECT_EQ(Train({"--save", Path("weights"), "--mesh", "nonsense"}).code, 2);
  EXPECT_EQ(Train({"--save", Path("weights"), "--json", Path("no/such/folder")}).code, 2);
  EXPECT_EQ(Contents(Path("weights")), "earlier");
  EXPECT_EQ(Train({"--save", Path("weights"), "--epochs", "0"}).code, 0);
  EXPECT_EQ(ReadSafetensors(Path("weights"))->size(), 6u);
  EXPECT_THAT(Written(), ElementsAre("weights"));
}

// ---- Runs.

TEST_F(MlpMnistTest, TakesTheOptimizerItIsTold) {
  std::map<std::string, std::string> by_weights;  // after two steps, which are enough to tell all apart
  for (const char* name : {"sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw"}) {
    SCOPED_TRACE(name);
    ASSERT_EQ(Train({"--optimizer", name, "--steps", "2", "--save", Path("weights")}).code, 0);
    const auto [at, is_new] = by_weights.emplace(Contents(Path("weights")), name);
    EXPECT_TRUE(is_new) << "as " << at->second;
  }
  ASSERT_EQ(Train({"--steps", "2", "--save", Path("weights")}).code, 0);
  EXPECT_EQ(by_weights[Contents(Path("weights"))], "adam");
}

TEST_F(MlpMnistTest, SaysWhatItDoes) {
  const Finished finished = Train({});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(
      finished.out,
      MatchesRegex(
          "mnist: 28 training and 12 test images, mesh \\[batch=8\\] of 8 devices, 905010 parameters\n"
          "  each step: 1 all_reduce over \\(batch\\), [0-9]+ B on the wire per device\n"
          "epoch 1/1  2 steps  [0-9.]+ ms/step  loss [0-9.]+  accuracy [0-9.]+ %  test loss [0-9.]+  "
          "test accuracy [0-9.]+ %\n"));
}

// 28 images in batches of 16: one full step and a short one, and the evaluation, which is no step.
TEST_F(MlpMnistTest, PrintsWhereTheTimeWent) {
  const Finished finished = Train({"--profile", "on", "--workers", "2"});
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  const std::string table = finished.out.substr(finished.out.find("\n\n") + 2);
  EXPECT_THAT(table, StartsWith("op "));
  EXPECT_THAT(table, HasSubstr("\nmatmul"));
  EXPECT_THAT(table, HasSubstr("  mlp.cc:"));
  EXPECT_THAT(table, HasSubstr(" GFLOP/s\n"));
  EXPECT_THAT(table, HasSubstr("\nmatmul+all_reduce+adam_update "));
  EXPECT_THAT(table, HasSubstr(" GB/s\n"));
  EXPECT_THAT(table, HasSubstr("\nwaiting "));
  EXPECT_THAT(table, HasSubstr("  2 instructions "));
  EXPECT_THAT(table, HasSubstr("\n1 step, "));
}

TEST_F(MlpMnistTest, WritesATraceOfTheLastFullSteps) {
  const Finished finished = Train(
      {"--mesh", "batch=4,model=2", "--epochs", "12", "--workers", "2", "--profile", Path("trace.json")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\n12 steps, "));  // of one full batch each, in the table
  EXPECT_THAT(Written(), ElementsAre("trace.json"));
  std::map<int, std::string> tracks;
  std::map<std::string, std::map<std::string, int>> counts;  // by track and category
  const json file = ReadJson("trace.json");
  for (const json& event : file.at("traceEvents")) {
    if (event.at("name") == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    if (event.at("ph") != "X") continue;
    ++counts[tracks.at(event.at("tid"))][event.at("cat")];
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
  }
  ASSERT_EQ(tracks.size(), 1u + 8 + 2);
  EXPECT_EQ(counts.at("steps").at("step"), 10);
  for (int d = 0; d < 8; ++d) {
    const auto& device = counts.at(fmt::format("device {} (batch={}, model={})", d, d / 2, d % 2));
    EXPECT_EQ(device.count("collective"), 0u);  // sums are made where they are computed
    EXPECT_GT(device.at("kernel"), 0);
  }
  EXPECT_EQ(counts.at("worker 0 (devices 0-3)").at("kernel"),
            counts.at("worker 1 (devices 4-7)").at("kernel"));
}

TEST_F(MlpMnistTest, DrawsHowTheTrainingWent) {
  const Finished finished = Train({"--epochs", "3", "--plot", Path("plot.svg")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nat the start  test loss "));
  const std::string svg = Contents(Path("plot.svg"));
  EXPECT_THAT(svg, StartsWith("<svg "));
  EXPECT_THAT(svg, HasSubstr(">MLP on MNIST<"));
  EXPECT_THAT(svg, HasSubstr("<desc>Loss: train (6 points, last "));
  EXPECT_THAT(svg, HasSubstr("Accuracy, %: train (6 points, last "));
  EXPECT_THAT(svg, HasSubstr("test (4 points, last "));
  // A start without training is a point, too.
  ASSERT_EQ(Train({"--epochs", "0", "--plot", Path("plot.svg")}).code, 0);
  EXPECT_THAT(Contents(Path("plot.svg")), HasSubstr("Loss: train (0 points), test (1 points, last "));
}

// A learning rate that makes the weights infinite: the curves end, and say so.
TEST_F(MlpMnistTest, DrawsWhatIsLeftOfATrainingThatDiverges) {
  const Finished finished =
      Train({"--epochs", "3", "--optimizer", "sgd", "--lr", "1e30", "--plot", Path("plot.svg")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const std::string svg = Contents(Path("plot.svg"));
  EXPECT_THAT(svg, HasSubstr(" finite, left out<"));
  EXPECT_THAT(svg, HasSubstr("last not finite)"));
}

TEST_F(MlpMnistTest, ExplainsEveryCollective) {
  const Finished finished = Train({"--epochs", "0", "--mesh", "batch=4,model=2", "--explain"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("\nstep on mesh [batch=4, model=2], 2 collectives, 2739572 B on the "
                                      "wire per device:\n  1. all_reduce over (model): "));
  EXPECT_THAT(finished.out, HasSubstr("\n       matmul (mlp.cc:"));
  EXPECT_THAT(finished.out, HasSubstr("\nmemory: "));
  EXPECT_THAT(finished.out, HasSubstr("var %dense1/kernel: f32[784,350] of f32[784,700] {_,model} (mlp.cc:"));
  EXPECT_THAT(finished.out, HasSubstr("\n\nat the start  test loss "));  // and goes on
}

TEST_F(MlpMnistTest, ShardsTheOptimizersStateWhereAsked) {
  const std::vector<std::string> args = {"--epochs", "0", "--mesh", "batch=4,model=2", "--explain"};
  EXPECT_THAT(Train(args).out, testing::Not(HasSubstr("weight-update sharding")));
  std::vector<std::string> with = args;
  with.push_back("--shard-weight-update");
  const Finished finished = Train(with);
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("laid out by weight-update sharding:\n  %adam/m/dense1/kernel "
                                      "{batch,model} instead of {_,model}\n"));
}

// ---- Weights from a file.

TEST_F(MlpMnistTest, StartsFromSavedWeightsOnEveryMesh) {
  const auto before = [&] { return ReadJson("json").at("before"); };
  for (const char* dtype : {"f32", "f64"}) {
    ASSERT_EQ(Train({"--mesh", "batch=4,model=2", "--dtype", dtype, "--save", Path("weights"), "--json",
                     Path("json")})
                  .code,
              0);
    const std::string saved = Contents(Path("weights"));
    const json trained = ReadJson("json").at("epochs")[0];
    for (const char* mesh : {"batch=1", "batch=4,model=2", "model=3,other=2"}) {
      SCOPED_TRACE(mesh);
      const Finished finished = Train({"--mesh", mesh, "--dtype", dtype, "--epochs", "0", "--load",
                                       Path("weights"), "--save", Path("again"), "--json", Path("json")});
      ASSERT_EQ(finished.code, 0) << finished.err;
      EXPECT_TRUE(Contents(Path("again")) == saved);
      const double loss = trained.at("test_loss");
      EXPECT_NEAR(before().at("test_loss").get<double>(), loss, 1e-5 * loss);
      EXPECT_EQ(before().at("test_accuracy"), trained.at("test_accuracy"));
      EXPECT_THAT(finished.out, HasSubstr(fmt::format("at the start  test loss {:.4f}", loss)));
    }
  }
  // Training goes on from them, and may write over the file that it started from.
  ASSERT_EQ(Train({"--dtype", "f64", "--load", Path("weights"), "--save", Path("weights")}).code, 0);
  EXPECT_FALSE(Contents(Path("weights")) == Contents(Path("again")));
}

TEST_F(MlpMnistTest, RefusesWeightsOfAnotherModel) {
  const std::string all =
      "dense1/kernel, dense1/bias, dense2/kernel, dense2/bias, dense3/kernel, dense3/bias.";
  const auto load = [&] { return Train({"--load", Path("weights")}); };
  ExpectRejected(load(), "--load: $/weights: cannot be read: No such file or directory; check the path.");
  ExpectRejected(Train({"--load", data()}),
                 "--load: $/data: is not a regular file; directories, pipes and devices are not read here.");
  File("weights", "{}");
  ExpectRejected(load(),
                 "--load: $/weights: has 2 bytes; a safetensors file starts with 8 bytes of header length.");

  ASSERT_EQ(Train({"--epochs", "0", "--save", Path("weights")}).code, 0);
  const std::string whole = Contents(Path("weights"));
  File("weights", whole.substr(0, whole.size() - 1));
  const Finished cut = load();
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.err, HasSubstr("after its header; it is incomplete, fetch it again.\n"));
  File("weights", whole);
  ExpectRejected(
      Train({"--load", Path("weights"), "--dtype", "f64"}),
      "--load: $/weights: tensor \"dense1/kernel\" is f32[784,700] but the model's is f64[784,700]; "
      "weights are not converted, give --dtype f32.");

  auto tensors = ReadSafetensors(Path("weights")).value();
  const auto write = [&](const auto& changed) {
    EXPECT_TRUE(WriteSafetensors(Path("weights"), changed).ok());
  };
  auto changed = tensors;
  changed.pop_back();
  write(changed);
  ExpectRejected(
      load(), "--load: $/weights: there is no tensor \"dense3/bias\"; the weights of the model are " + all);
  changed = tensors;
  changed[5].first = "dense3/bais";
  write(changed);
  ExpectRejected(load(),
                 "--load: $/weights: tensor \"dense3/bais\" is no weight of the model; did you mean "
                 "\"dense3/bias\"? The weights are " +
                     all);
  changed = tensors;
  changed.emplace_back("optimizer/step", Tensor({F32, {}}));
  write(changed);
  ExpectRejected(
      load(),
      "--load: $/weights: tensor \"optimizer/step\" is no weight of the model. The weights are " + all);
  changed = tensors;
  changed[4].second = Tensor({F32, {10, 500}});
  write(changed);
  ExpectRejected(load(),
                 "--load: $/weights: tensor \"dense3/kernel\" is f32[10,500] but the model's is f32[500,10]; "
                 "weights are not converted.");
}

// ---- Data and measures.

TEST_F(MlpMnistTest, TakesTheDataFromTheEnvironment) {
  const Finished finished = Run({"--epochs", "0"}, {"MNIST_DIR=" + data()});
  EXPECT_EQ(finished.err, "");
  EXPECT_THAT(finished.out, StartsWith("mnist: 28 training and 12 test images, "));
  EXPECT_EQ(finished.code, 0);
}

TEST_F(MlpMnistTest, SaysLoudlyThatTheDigitsAreDrawn) {
  for (const std::vector<std::string>& data_dir : {std::vector<std::string>{}, {"--data-dir", "synthetic"}}) {
    std::vector<std::string> args = {"--train-examples", "20", "--test-examples", "10",
                                     "--epochs",         "0",  "--json",          Path("json")};
    args.insert(args.end(), data_dir.begin(), data_dir.end());
    const Finished finished = Run(args);
    EXPECT_EQ(finished.code, 0);
    EXPECT_EQ(finished.err,
              "*** These are NOT the MNIST digits: training on synthetic ones from the built-in generator.\n"
              "*** For MNIST give --data-dir or MNIST_DIR, or run ./dev mnist.\n");
    EXPECT_THAT(finished.out, StartsWith("synthetic: 20 training and 10 test images, "));
    EXPECT_EQ(ReadJson("json").at("data"), "synthetic");
  }
}

TEST_F(MlpMnistTest, WritesWhatItMeasuredAsJson) {
  const Finished finished = Train({"--mesh", "batch=4,model=2", "--epochs", "2", "--json", Path("json")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(Written(), ElementsAre("json"));
  const json report = ReadJson("json");
  EXPECT_THAT(KeysOf(report), ElementsAre("collectives", "data", "devices", "epochs", "mesh", "parameters",
                                          "peak_rss_mb", "startup_seconds", "step_ms"));
  EXPECT_EQ(report["data"], "mnist");
  EXPECT_EQ(report["mesh"], "[batch=4, model=2]");
  EXPECT_EQ(report["devices"], 8);
  EXPECT_EQ(report["parameters"], 905010);
  EXPECT_GT(report["step_ms"].get<double>(), 0);
  EXPECT_GE(report["startup_seconds"].get<double>(), 0);
  EXPECT_LT(report["startup_seconds"].get<double>(), 3600);
  EXPECT_GT(report["peak_rss_mb"].get<double>(), 10);

  ASSERT_FALSE(report["collectives"].empty());
  for (const json& collective : report["collectives"]) {
    EXPECT_THAT(KeysOf(collective), ElementsAre("axes", "bytes", "count", "type"));
    EXPECT_EQ(collective["type"], "all_reduce");
    EXPECT_GT(collective["count"].get<int64_t>(), 0);
    EXPECT_GT(collective["bytes"].get<int64_t>(), 0);
  }
  ASSERT_EQ(report["epochs"].size(), 2u);
  for (const json& epoch : report["epochs"]) {
    EXPECT_THAT(KeysOf(epoch),
                ElementsAre("seconds", "test_accuracy", "test_loss", "train_accuracy", "train_loss"));
    EXPECT_GT(epoch["seconds"].get<double>(), 0);
    for (const char* loss : {"train_loss", "test_loss"}) {
      EXPECT_GT(epoch[loss].get<double>(), 0);
      EXPECT_LT(epoch[loss].get<double>(), 5);
    }
    for (const char* accuracy : {"train_accuracy", "test_accuracy"}) {
      EXPECT_GE(epoch[accuracy].get<double>(), 0);
      EXPECT_LE(epoch[accuracy].get<double>(), 1);
    }
  }
  EXPECT_LT(report["epochs"][1]["train_loss"], report["epochs"][0]["train_loss"]);
}

TEST_F(MlpMnistTest, OneDeviceNeedsNoCollectives) {
  ASSERT_EQ(Train({"--mesh", "batch=1", "--epochs", "0", "--json", Path("json")}).code, 0);
  const json report = ReadJson("json");
  EXPECT_EQ(report["devices"], 1);
  EXPECT_EQ(report["collectives"], json::array());
  EXPECT_EQ(report["epochs"], json::array());
  EXPECT_EQ(report["startup_seconds"], nullptr);
  EXPECT_EQ(report["step_ms"], nullptr);
}

TEST_F(MlpMnistTest, SavesTheSameInitialWeightsOnEveryMesh) {
  for (const char* dtype : {"f32", "f64"}) {
    const std::vector<std::string> common = {"--epochs", "0", "--dtype", dtype, "--save", Path("weights")};
    std::string first;
    for (const char* mesh :
         {"batch=1", "batch=8", "batch=3", "batch=7", "batch=4,model=2", "model=3,other=2"}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, dtype));
      std::vector<std::string> args = common;
      args.insert(args.end(), {"--mesh", mesh});
      const Finished finished = Train(args);
      ASSERT_EQ(finished.code, 0) << finished.err;
      const std::string weights = Contents(Path("weights"));
      if (first.empty()) first = weights;
      EXPECT_TRUE(weights == first);
    }
    const auto tensors = ReadSafetensors(Path("weights")).value();
    std::vector<std::string> types;
    for (const auto& [name, tensor] : tensors)
      types.push_back(fmt::format("{} {}", name, tensor.type().ToString()));
    auto of = [&](std::string_view name, std::string_view shape) {
      return fmt::format("{} {}{}", name, dtype, shape);
    };
    EXPECT_THAT(types, ElementsAre(of("dense1/kernel", "[784,700]"), of("dense1/bias", "[700]"),
                                   of("dense2/kernel", "[700,500]"), of("dense2/bias", "[500]"),
                                   of("dense3/kernel", "[500,10]"), of("dense3/bias", "[10]")));

    std::vector<std::string> args = common;
    args.insert(args.end(), {"--seed", "1"});
    ASSERT_EQ(Train(args).code, 0);
    EXPECT_FALSE(Contents(Path("weights")) == first);
  }
}

TEST_F(MlpMnistTest, TrainsTheSameOnEveryMeshInDoubles) {
  auto losses = [&](const std::string& mesh, bool shards = false) {
    std::vector<std::string> args = {"--mesh", mesh,      "--dtype", "f64",    "--epochs",
                                     "2",      "--steps", "3",       "--json", Path("json")};
    if (shards) args.push_back("--shard-weight-update");
    const Finished finished = Train(args);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return ReadJson("json").at("step_losses").get<std::vector<double>>();
  };
  const std::vector<double> expected = losses("batch=1");
  ASSERT_EQ(expected.size(), 3u);  // 16, 12 and 16 examples
  for (const char* mesh : {"batch=8", "batch=3", "batch=4,model=2"}) {
    SCOPED_TRACE(mesh);
    for (const bool shards : {false, true}) {
      const std::vector<double> actual = losses(mesh, shards);
      ASSERT_EQ(actual.size(), 3u);
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(actual[i], expected[i], 1e-9 * expected[i]) << shards;
    }
  }
}

TEST_F(MlpMnistTest, WeightsDoNotDependOnTheNumberOfWorkers) {
  std::string first;
  for (const char* workers : {"1", "2", "3"}) {
    ASSERT_EQ(Train({"--workers", workers, "--save", Path("weights")}).code, 0);
    const std::string weights = Contents(Path("weights"));
    if (first.empty()) first = weights;
    EXPECT_TRUE(weights == first) << workers;
  }
}

TEST_F(MlpMnistTest, DumpsTheProgramAfterEveryPass) {
  const Finished finished = Train({"--epochs", "0", "--dump", Path("made/here")});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(
      Written(),
      ElementsAre("made", "made/here", "made/here/00_fold_sizes.mw", "made/here/01_share_subexpressions.mw",
                  "made/here/02_drop_dead_code.mw", "made/here/03_regroup_sums.mw",
                  "made/here/04_propagate.mw", "made/here/05_insert_relayouts.mw", "made/here/06_localize.mw",
                  "made/here/07_share_subexpressions_local.mw", "made/here/08_drop_dead_code_local.mw",
                  "made/here/09_bucket_reductions.mw"));
  for (const std::string& name : Written()) {
    if (!name.ends_with(".mw")) continue;
    SCOPED_TRACE(name);
    const std::string text = Contents(Path(name));
    EXPECT_THAT(text, StartsWith("mesh [batch=8]\nfunc step(%images: "));
    const absl::StatusOr<Graph> parsed = ParseGraph(text);
    ASSERT_TRUE(parsed.ok()) << MessageOf(parsed.status());
    EXPECT_EQ(PrintGraph(*parsed), text);
  }
}

}  // namespace
}  // namespace meshwork
