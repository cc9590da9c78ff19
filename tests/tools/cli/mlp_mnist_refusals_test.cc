// What examples/mlp_mnist refuses: flags, meshes, data files, and output files that cannot be written.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/storage/safetensors.h"
#include "support/idx_file.h"
#include "tools/cli/mlp_mnist.h"

namespace meshwork::mlp_mnist_refusals_test {
namespace {

using ::testing::ElementsAre;

// ---- The command line.

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
      {{"--devices"}, "--devices needs a value."},
      {{"--devices", "gpu"},
       "--devices: Devices: \"gpu\" is none of cpu, cuda, cuda:N, cuda:N-M, pjrt:PATH and tpu, where N and M are numbers of "
       "GPUs, \"meshwork devices\" lists those of this machine, and PATH is a PJRT plugin."},
      {{"--devices", "cuda:0-3,2"},
       "--devices: Devices: \"cuda:0-3,2\" names GPU 2 twice; each GPU is one domain."},
      {{"--check-replicas", "100"},
       "--check-replicas: \"100\" is neither \"off\" nor \"every=\" and a number of steps, as in every=100."},
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
      {"batch=",
       "--mesh: Mesh: size \"\" of axis \"batch\" in \"batch=\" is not a whole number below 2^63; "
       "write for example batch=4,model=2."},
      {"batch=4,", "--mesh: Mesh: \"batch=4,\" ends with a comma; write for example batch=4,model=2."},
      {"batch=0",
       "--mesh: Mesh: axis \"batch\" has size 0 in [batch=0]; "
       "sizes are at least 1, and an axis of size 1 shards nothing."},
      {"batch=-8",
       "--mesh: Mesh: axis \"batch\" has size -8 in [batch=-8]; "
       "sizes are at least 1, and an axis of size 1 shards nothing."},
      {"batch=2,model=4,batch=2",
       "--mesh: Mesh: axis \"batch\" appears twice in [batch=2, model=4, batch=2]; axis names must be "
       "unique: write one axis, or two names."},
      {"8", "--mesh: Mesh: \"8\" in \"8\" is not name=size; write for example batch=4,model=2."},
      {"[batch=8",
       "--mesh: Mesh: \"[batch=8\" opens with [ and does not close with ]; write for example [batch=4, model=2]."},
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

TEST_F(MlpMnistTest, RefusesDataWithoutImages) {
  File("data/t10k-images-idx3-ubyte", Images(0));
  File("data/t10k-labels-idx1-ubyte", Labels(0));
  ExpectRejected(Train({}),
                 "$/data: there are 28 training and 0 test images; at least one of each is needed.");
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

  // The same bytes, gzipped and then truncated or damaged: the header of an empty file, and a block of an unknown
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

}  // namespace
}  // namespace meshwork::mlp_mnist_refusals_test
