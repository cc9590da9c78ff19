// meshwork checkpoint as a shell sees it.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/version.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/safetensors.h"
#include "storage/saved.h"
#include "support/contents.h"
#include "support/golden.h"
#include "support/safetensors_bytes.h"
#include "tools/cli/meshwork_tool.h"

namespace meshwork::meshwork_checkpoint_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::UnorderedElementsAre;

class CheckpointToolTest : public MeshworkTest {
 protected:
  // Into the folder `name`; returns the checkpoint's path.
  std::string Save(const std::string& name, int64_t step, int64_t domains = 2,
                   const std::vector<SavedVariable>& variables = SavedModel()) {
    const CheckpointNote note{
        .step = step, .facts = {{"epoch", "3"}}, .metrics = {{"loss", 1.0 / static_cast<double>(step)}}};
    for (const absl::Status& status : SaveAll(Path(name), "a=4,b=2", domains, variables, note))
      EXPECT_EQ(MessageOf(status), "");
    return Path(fmt::format("{}/{}", name, CheckpointName(step)));
  }

  static Finished Checkpoint(std::vector<std::string> args) {
    args.insert(args.begin(), "checkpoint");
    return Run(args);
  }
  std::string Succeeds(const std::vector<std::string>& args) const {
    const Finished finished = Checkpoint(args);
    EXPECT_EQ(finished.err, "");
    EXPECT_EQ(finished.code, 0);
    return Hidden(finished.out);
  }
  void ExpectRefused(const std::vector<std::string>& args, const std::string& message) const {
    SCOPED_TRACE(args.back());
    ExpectFails(Checkpoint(args), 2, fmt::format("meshwork checkpoint {}: {}", args[0], message));
  }

  // Hides what differs from run to run: this test's folder, the version and the time.
  std::string Hidden(std::string text) const {
    const auto hide = [&](std::string_view what, std::string_view as) {
      for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += as.size())
        text.replace(at, what.size(), as);
    };
    hide(dir(), "DIR");
    hide(MESHWORK_VERSION, "1.2.3");
    static const auto* const time = new std::regex("20[0-9]{2}-[0-9-]{5}T[0-9:]{8}Z");
    return std::regex_replace(text, *time, "2026-11-24T10:52:29Z");
  }
  // One bit of the last byte becomes another.
  static void Damage(const std::string& file) {
    std::string bytes = ReadFile(file).value();
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    ASSERT_TRUE(WriteFileAtomically(file, bytes).ok());
  }
};

// ---- Help.

TEST_F(CheckpointToolTest, HelpListsCommandsAndFlags) {
  std::string all = fmt::format("$ meshwork checkpoint --help\n{}\n", Succeeds({"--help"}));
  for (const char* command : {"ls", "verify", "diff", "convert", "reshard"})
    all += fmt::format("$ meshwork checkpoint {} --help\n{}\n", command, Succeeds({command, "--help"}));
  ExpectGolden("tools/cli/meshwork_checkpoint_help.txt", all);
}

TEST_F(CheckpointToolTest, RefusesArgumentsThatAreWrong) {
  const std::string saved = Save("runs", 1);
  ExpectFails(Checkpoint({}), 2, "meshwork checkpoint: a command is missing. See --help.");
  ExpectFails(Checkpoint({"sl"}), 2,
              "meshwork checkpoint: there is no command \"sl\"; did you mean \"ls\"? See --help.");
  ExpectRefused({"ls"}, "PATH is missing. See --help.");
  ExpectRefused({"ls", Path("none")}, "$/none: cannot be read: No such file or directory.");
  ExpectRefused({"ls", Path("step.mw")},
                "$/step.mw: is a file; give a folder of checkpoints, or the folder of a checkpoint.");
  ExpectRefused({"ls", ""}, "\"\": cannot be read: No such file or directory.");
  ExpectRefused({"verify", Path("none")}, "$/none: cannot be read: No such file or directory.");
  std::filesystem::create_directory(Path("nothing"));
  ExpectRefused(
      {"verify", Path("nothing")},
      "$/nothing: there is no checkpoint; name the folder that was given to Save, or to a training.");
  ExpectRefused({"diff", saved}, "B is missing. See --help.");
  ExpectRefused({"diff", saved, Path("none")},
                "$/none: cannot be read: No such file or directory; check the path.");
  ExpectRefused(
      {"diff", Path("nothing"), saved},
      "$/nothing: there is no checkpoint; name the folder that was given to Save, or to a training.");
  ExpectRefused(
      {"convert", saved, Path("f"), "--step", "3"},
      "--step is the step of the checkpoint that is made of a safetensors file; $/runs/step-000000000001 "
      "is a folder.");
  ExpectRefused(
      {"convert", saved, Path("none/f")},
      "$/none/f: cannot be written: No such file or directory; its directory must exist, be writable "
      "and have room. Nothing was changed.");
  ExpectRefused(
      {"convert", saved, Path("f"), "--only", "v*"},
      "--only: no variable is called \"v*\"; the variables are adam/m, bias, count, empty, mask, narrow, "
      "strided, w.");
  ExpectRefused({"convert", saved, Path("f"), "--only", "baas"},
                "--only: no variable is called \"baas\"; did you mean \"bias\"?");
  ExpectRefused({"convert", saved, Path("f"), "--dtype", "f8"},
                "--dtype: \"f8\" is not one of f32, f64, bf16, f16, i64.");
  ExpectRefused({"convert", Path("none"), Path("out")},
                "$/none: cannot be read: No such file or directory; check the path.");
  ExpectRefused({"reshard", saved, Path("out")}, "--shards or --mesh is missing. See --help.");
  ExpectRefused({"reshard", saved, Path("out"), "--shards", "4097"},
                "--shards: \"4097\" is not a whole number from 0 to 4096.");
  ExpectRefused({"reshard", saved, Path("out"), "--shards", "2", "--layout", "w={a,_}"},
                "--layout names axes of a mesh; give --mesh as well.");
  ExpectRefused({"reshard", saved, Path("out"), "--mesh", "a=0"},
                "--mesh: Mesh: axis \"a\" has size 0 in [a=0]; "
                "sizes are at least 1, and an axis of size 1 shards nothing.");
  ExpectRefused({"reshard", saved, Path("out"), "--mesh", "a=100000"},
                "--mesh: [a=100000] has 100000 devices; a checkpoint is cut for at most 65536.");
  ExpectRefused({"reshard", saved, Path("out"), "--mesh", "a=8192"},
                "--shards: one for each of 8192 devices are more than 4096; give a number.");
  ExpectRefused(
      {"reshard", saved, Path("out"), "--mesh", "a=4", "--shards", "3"},
      "--shards: Placement: 3 domains on [a=4] of 4 devices; each domain holds equally many devices, so "
      "their number divides 4.");
  ExpectRefused({"reshard", saved, Path("out"), "--mesh", "a=2", "--layout", "w"},
                "--layout: \"w\" is no name and layout; write for example 'w={batch,_}'.");
  ExpectRefused(
      {"reshard", saved, Path("out"), "--mesh", "a=2", "--layout", "v={a,_}"},
      "--layout: no variable is called \"v\"; the variables are adam/m, bias, count, empty, mask, narrow, "
      "strided, w.");
  ExpectRefused({"reshard", saved, Path("out"), "--mesh", "a=2", "--layout", "w={x,_}"},
                "--layout: \"w\" f32[10,7]: Layout {x,_}: mesh [a=2] has no axis \"x\"; "
                "name another, or add the axis to the mesh: x=1 shards nothing.");
  ExpectRefused(
      {"reshard", saved, Path("out"), "--mesh", "a=2", "--layout", "w={a}"},
      "--layout: \"w\" f32[10,7]: layout {a} has 1 dim, the shape [10,7] has 2; give one entry per dim.");
  ExpectRefused(
      {"reshard", saved, Path("out"), "--mesh", "a=2", "--layout", "w={_,_|sum:a}"},
      "--layout: \"w\" f32[10,7]: layout {_,_ | sum:a}: a variable owes no reduction; name only axes that "
      "cut it.");
  EXPECT_FALSE(std::filesystem::exists(Path("f")));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

// ---- ls.

TEST_F(CheckpointToolTest, LsListsCheckpoints) {
  Save("runs", 100);
  const std::string damaged = Save("runs", 200);
  Save("runs", 300, 1, {{"w", {F32, {1000, 700}}, "{a,_}"}});
  std::filesystem::remove(damaged + "/" + ShardName(1, 2));
  std::filesystem::create_directory(Path("runs/partial-5f3a-7"));
  std::filesystem::create_directory(Path("runs/other"));
  EXPECT_EQ(
      Succeeds({"ls", Path("runs")}),
      "step  written                   size  variables  mesh          metrics                     state\n"
      " 300  2026-11-24T10:52:29Z  2.67 MiB          1  [a=4, b=2]    loss=0.0033333333333333335  complete\n"
      " 200  -                            -          -  -             -                           unusable\n"
      " 100  2026-11-24T10:52:29Z    2721 B          8  [a=2*2, b=2]  loss=0.01                   complete\n"
      "DIR/runs/step-000000000200: cannot be used: DIR/runs/step-000000000200/shard-00001-of-00002.safetensors: cannot "
      "be read: No such file or directory; check the path.\n"
      "partial-5f3a-7: is being written, or was left by a writer that was killed\n");

  const json list = json::parse(Succeeds({"ls", Path("runs"), "--json"}));
  EXPECT_EQ(list["unfinished"], json::parse(R"(["partial-5f3a-7"])"));
  ASSERT_EQ(list["checkpoints"].size(), 3u);
  EXPECT_EQ(
      list["checkpoints"][2],
      json::parse(
          R"json({"path": "DIR/runs/step-000000000100", "step": 100, "bytes": 2721, "facts": {"epoch": "3"},
                "mesh": "[a=2*2, b=2]", "meshwork": "1.2.3", "metrics": {"loss": 0.01}, "shards": 2, "variables": 8,
                "written": "2026-11-24T10:52:29Z"})json"));
  EXPECT_THAT(list["checkpoints"][1]["error"].get<std::string>(),
              HasSubstr("shard-00001-of-00002.safetensors"));
}

TEST_F(CheckpointToolTest, LsListsVariables) {
  const std::string saved = Save("runs", 100);
  EXPECT_EQ(
      Succeeds({"ls", saved}),
      "DIR/runs/step-000000000100: step 100, written 2026-11-24T10:52:29Z by meshwork 1.2.3, on mesh [a=2*2, b=2]\n"
      "facts: epoch=3\n"
      "metrics: loss=0.01\n"
      "variable  type       layout     pieces  bytes\n"
      "adam/m    f32[10,7]  {(a,b),_}       7    280\n"
      "bias      f64[7]     {a}             4     56\n"
      "count     i64[]      {}              1      8\n"
      "empty     f32[0,3]   {a,_}           0      0\n"
      "mask      bool[5,3]  {b,_}           2     15\n"
      "narrow    bf16[9]    {_}             1     18\n"
      "strided   i32[24]    {4@b*6@a}      12     96\n"
      "w         f32[10,7]  {_,_}           1    280\n"
      "8 variables, 2721 B in 2 shards\n");
  const json one = json::parse(Succeeds({"ls", "--json", saved}));
  EXPECT_EQ(
      one["variables"][0],
      json::parse(
          R"json({"name": "adam/m", "type": "f32[10,7]", "layout": "{(a,b),_}", "pieces": 7, "bytes": 280})json"));
  EXPECT_EQ(one["shards"].size(), 2u);
  EXPECT_EQ(one["shards"][1]["file"], ShardName(1, 2));
}

TEST_F(CheckpointToolTest, LsOfAFolderWithoutCheckpoints) {
  std::filesystem::create_directory(Path("runs"));
  EXPECT_EQ(Succeeds({"ls", Path("runs")}), "DIR/runs: no checkpoints\n");
  EXPECT_EQ(json::parse(Succeeds({"ls", Path("runs"), "--json"})),
            json::parse(R"({"checkpoints": [], "unfinished": []})"));
}

// Text from a file never reaches the terminal as a command.
TEST_F(CheckpointToolTest, LsPrintsNoControlCharacters) {
  const std::string saved = Save("runs", 1, 1, {{"\x1b[2J", {F32, {}}, "{}"}});
  EXPECT_THAT(Succeeds({"ls", saved}), HasSubstr("\n\"\\u001b[2J\"  f32[]"));
}

// ---- verify.

TEST_F(CheckpointToolTest, VerifyNamesAllThatIsDamaged) {
  const std::string good = Save("runs", 100), damaged = Save("runs", 200), cut = Save("runs", 300);
  EXPECT_EQ(Succeeds({"verify", good}),
            "DIR/runs/step-000000000100: complete: 8 variables, 2721 B in 2 shards\n");
  Damage(damaged + "/" + ShardName(0, 2));
  Damage(damaged + "/" + ShardName(1, 2));
  std::filesystem::resize_file(cut + "/" + ShardName(1, 2), 10);
  const Finished all = Checkpoint({"verify", Path("runs")});
  EXPECT_EQ(all.code, 1);
  EXPECT_EQ(Hidden(all.err), "meshwork checkpoint verify: DIR/runs: 2 of 3 checkpoints cannot be used.\n");
  const std::string path = "DIR/runs/step-000000000", shard = "/shard-0000";
  static const auto* const hash = new std::regex("[0-9a-f]{64}");
  EXPECT_EQ(
      std::regex_replace(Hidden(all.out), *hash, "HASH"),
      fmt::format(
          "{0}300: cannot be used: {0}300{1}1-of-00002.safetensors: has 10 bytes and not the 1121 that the "
          "index says; the checkpoint is damaged.\n"
          "{0}200: cannot be used: {0}200{1}0-of-00002.safetensors: its SHA-256 is HASH and the index says "
          "HASH; the file is damaged.\n"
          "{0}200: cannot be used: {0}200{1}1-of-00002.safetensors: its SHA-256 is HASH and the index says "
          "HASH; the file is damaged.\n"
          "{0}100: complete: 8 variables, 2721 B in 2 shards\n",
          path, shard));
  EXPECT_EQ(Checkpoint({"verify", damaged}).code, 1);
}

// The index is checked, too: a changed number in it is damage.
TEST_F(CheckpointToolTest, VerifyFindsAnotherDigitInTheIndex) {
  const std::string good = Save("runs", 100), changed = Save("runs", 200), index = changed + "/index.json";
  std::string text = ReadFile(index).value();
  ASSERT_TRUE(
      WriteFileAtomically(index, text.replace(text.find("\"epoch\":\"3\""), 11, "\"epoch\":\"7\"")).ok());
  const Finished one = Checkpoint({"verify", changed});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.out, HasSubstr("index.json: its SHA-256 is "));
  EXPECT_EQ(Checkpoint({"verify", good}).code, 0);
  // The one before is the newest that can be used.
  EXPECT_THAT(Succeeds({"convert", Path("runs"), Path("w.safetensors")}),
              HasSubstr("DIR/runs/step-000000000100"));
}

// ---- diff.

TEST_F(CheckpointToolTest, DiffSaysWhatDiffers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto write = [&](const std::string& name,
                         const std::vector<std::pair<std::string, Tensor>>& tensors) {
    EXPECT_TRUE(WriteSafetensors(Path(name), tensors).ok());
    return Path(name);
  };
  const std::string a = write("a", {{"bits", Tensor::From<float>({3}, {0, 1, nan})},
                                    {"bools", BoolTensor({1, 0, 1})},
                                    {"far", Tensor::From<int64_t>({2}, {INT64_MIN, 5})},
                                    {"left", Tensor::From<float>({}, {1})},
                                    {"low", Tensor::From<float>({2}, {-inf, 1})},
                                    {"rank", Tensor::From<float>({1}, {1})},
                                    {"same", Tensor::From<float>({2, 2}, {nan, inf, -0.0f, 1})},
                                    {"type", Tensor::From<float>({2}, {1, 2})},
                                    {"w", Tensor::From<double>({2, 2}, {1, 2, 3, 4})}});
  const std::string b = write("b", {{"bits", Tensor::From<float>({3}, {-0.0f, 1, 2})},
                                    {"bools", BoolTensor({1, 1, 1})},
                                    {"far", Tensor::From<int64_t>({2}, {INT64_MAX, 5})},
                                    {"low", Tensor::From<float>({2}, {inf, 1})},
                                    {"rank", Tensor::From<float>({}, {1})},
                                    {"right", Tensor::From<float>({}, {1})},
                                    {"same", Tensor::From<float>({2, 2}, {nan, inf, -0.0f, 1})},
                                    {"type", Tensor::From<double>({2}, {1, 2})},
                                    {"w", Tensor::From<double>({2, 2}, {1, 2.5, 3, 3.25})}});
  const std::string expected =
      "only in DIR/a: left f32[]\n"
      "only in DIR/b: right f32[]\n"
      "bits: f32[3]: 2 of 3 elements differ, by at most 0; in 1 of them there is a NaN\n"
      "bools: bool[3]: 1 of 3 elements differ, by at most 1\n"
      "far: i64[2]: 1 of 2 elements differ, by at most 18446744073709551615\n"
      "low: f32[2]: 1 of 2 elements differ, by at most inf\n"
      "rank: f32[1] and f32[]\n"
      "type: f32[2] and f64[2]\n"
      "w: f64[2,2]: 2 of 4 elements differ, by at most 0.75\n"
      "1 of 10 variables the same\n";
  const Finished files = Checkpoint({"diff", a, b});
  EXPECT_EQ(Hidden(files.out), expected);
  EXPECT_EQ(Hidden(files.err), "meshwork checkpoint diff: DIR/a and DIR/b differ.\n");
  EXPECT_EQ(files.code, 1);

  // The same tensors as checkpoints: diff also compares the facts besides the variables.
  Succeeds({"convert", a, Path("A")});
  Succeeds({"convert", b, Path("B"), "--step", "7"});
  const Finished checkpoints = Checkpoint({"diff", Path("A"), Path("B")});
  EXPECT_EQ(Hidden(checkpoints.out),
            "step: 0 and 7\n" + std::regex_replace(std::regex_replace(expected, std::regex("DIR/a"),
                                                                      "DIR/A/step-000000000000"),
                                                   std::regex("DIR/b"), "DIR/B/step-000000000007"));
  EXPECT_EQ(checkpoints.code, 1);
}

TEST_F(CheckpointToolTest, DiffOfWhatIsTheSame) {
  const std::string a = Save("a", 100), b = Save("b", 200, 4);
  EXPECT_EQ(Succeeds({"diff", a, a}), "8 of 8 variables the same\n");
  EXPECT_EQ(Succeeds({"diff", a, b}),
            "step: 100 and 200\nmetric loss: 0.01 and 0.005\n8 of 8 variables the same\n");
}

// As in diff(1), what cannot be compared is an error, not a difference.
TEST_F(CheckpointToolTest, DiffOfWhatCannotBeRead) {
  const std::string a = Save("a", 1), b = Save("b", 1);
  std::filesystem::remove(b + "/" + ShardName(1, 2));
  EXPECT_EQ(Checkpoint({"diff", a, b}).code, 2);
  std::filesystem::create_directory(b + "/" + ShardName(1, 2));
  EXPECT_EQ(Checkpoint({"diff", a, b}).code, 2);
  EXPECT_EQ(Shell(fmt::format("\"$0\" checkpoint diff {0} {0} > /dev/full", a)).code, 2);
}

// ---- convert.

TEST_F(CheckpointToolTest, ConvertsToAFileAndBack) {
  const std::string saved = Save("runs", 100), file = Path("model.safetensors");
  EXPECT_THAT(Succeeds({"convert", Path("runs"), file}),
              MatchesRegex("DIR/model.safetensors: 8 tensors of DIR/runs/step-000000000100, [0-9]+ B\n"));
  const auto tensors = ReadSafetensors(file).value();
  const std::vector<SavedVariable> model = SavedModel();
  ASSERT_EQ(tensors.size(), model.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].first, model[i].name);
    EXPECT_EQ(tensors[i].second.type(), model[i].type);
    EXPECT_EQ(RawBytes(tensors[i].second),
              RawBytes(Numbered(model[i].type, 1 + 1000 * static_cast<int64_t>(i))));
  }
  EXPECT_EQ(SafetensorsFile::Open(file)->metadata(),
            (SafetensorsMetadata{{"meshwork", MESHWORK_VERSION}, {"step", "100"}}));
  EXPECT_EQ(Succeeds({"convert", file, Path("back"), "--step", "7"}),
            "DIR/back/step-000000000007: 8 variables of DIR/model.safetensors, 753 B\n");
  EXPECT_EQ(
      Succeeds({"diff", saved, Path("back")}),
      "step: 100 and 7\nfact epoch: 3 and none\nmetric loss: 0.01 and none\n8 of 8 variables the same\n");
  EXPECT_EQ(Succeeds({"diff", file, saved}), "8 of 8 variables the same\n");
  EXPECT_THAT(Succeeds({"verify", Path("back")}), HasSubstr("complete: 8 variables"));
}

TEST_F(CheckpointToolTest, ConvertsWhatIsAskedFor) {
  const std::string saved = Save("runs", 1), file = Path("f");
  const auto types = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"convert", saved, file, "--force"});
    Succeeds(flags);
    std::vector<std::string> texts;
    const auto tensors = ReadSafetensors(file).value();
    for (const auto& [name, tensor] : tensors) texts.push_back(name + " " + tensor.type().ToString());
    return texts;
  };
  EXPECT_THAT(types({"--only", "[bc]*", "--only=*/m"}),
              ElementsAre("adam/m f32[10,7]", "bias f64[7]", "count i64[]"));
  EXPECT_THAT(types({"--dtype", "f64", "--only", "*"}),
              ElementsAre("adam/m f64[10,7]", "bias f64[7]", "count i64[]", "empty f64[0,3]",
                          "mask bool[5,3]", "narrow f64[9]", "strided i32[24]", "w f64[10,7]"));
  EXPECT_THAT(types({"--dtype=bf16", "--only=b*", "--only=w", "--only=str*"}),
              ElementsAre("bias bf16[7]", "strided i32[24]", "w bf16[10,7]"));
  EXPECT_THAT(types({"--dtype=i64", "--only=strided", "--only=w"}),
              ElementsAre("strided i64[24]", "w f32[10,7]"));
}

TEST_F(CheckpointToolTest, RoundsToTheNearest) {
  // Half way between two bf16, just above that, NaN, beyond the largest.
  const double tie = 1 + 0x1p-8;
  ASSERT_TRUE(
      WriteSafetensors(Path("in"), {{"x", Tensor::From<double>({5}, {tie, tie + 0x1p-40, 1e300, -2, NAN})}})
          .ok());
  Succeeds({"convert", Path("in"), Path("runs"), "--dtype", "bf16"});
  const auto checkpoint = meshwork::Checkpoint::Open(Path("runs")).value();
  const Tensor x = checkpoint.Read("x").value();
  std::vector<float> values(x.values<BFloat16>().begin(), x.values<BFloat16>().end());
  EXPECT_TRUE(std::isnan(values.back()));
  values.pop_back();
  EXPECT_THAT(values, ElementsAre(1.0f, 1.0078125f, std::numeric_limits<float>::infinity(), -2.0f));
}

TEST_F(CheckpointToolTest, ReadsNarrowTypesOfAFile) {
  File("in", EncodeSafetensors(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                               R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                               R"("i":{"dtype":"I8","shape":[2],"data_offsets":[6,8]},)"
                               R"("u":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})",
                               std::string_view("\x00\x3e\x00\xc0\x40\x40\xff\x7f\xff", 9)));
  Succeeds({"convert", Path("in"), Path("as_is")});
  Succeeds({"convert", Path("in"), Path("wide"), "--dtype", "f64"});
  Succeeds({"convert", Path("in"), Path("long"), "--dtype", "i64"});
  const auto read = [&](const std::string& name) {
    const auto checkpoint = meshwork::Checkpoint::Open(Path(name)).value();
    std::vector<std::string> texts;
    for (const CheckpointVariable& variable : checkpoint.index().variables) {
      const Tensor tensor = checkpoint.Read(variable.name).value();
      texts.push_back(variable.name + " " + variable.type.ToString());
      for (int64_t i = 0; i < tensor.num_elements(); ++i)
        texts.back() += fmt::format(" {}", tensor.Rows(i, i + 1).Scalar().value());
    }
    return texts;
  };
  EXPECT_THAT(read("as_is"), ElementsAre("b bf16[1] 3", "h f16[2] 1.5 -2", "i i8[2] -1 127", "u u8[1] 255"));
  EXPECT_THAT(read("wide"), ElementsAre("b f64[1] 3", "h f64[2] 1.5 -2", "i i8[2] -1 127", "u u8[1] 255"));
  EXPECT_THAT(read("long"), ElementsAre("b bf16[1] 3", "h f16[2] 1.5 -2", "i i64[2] -1 127", "u i64[1] 255"));
}

TEST_F(CheckpointToolTest, ReplacesNothingUnasked) {
  const std::string saved = Save("runs", 1), other = Save("other", 1, 1, {{"w", {F32, {2}}, "{a}"}});
  File("f", "old");
  ExpectRefused({"convert", saved, Path("f")}, "$/f: is there already; --force replaces it.");
  EXPECT_EQ(Contents(Path("f")), "old");
  Succeeds({"convert", saved, Path("f"), "--force"});
  const std::string there = "$/other/step-000000000001: is there already; --force replaces it.";
  ExpectRefused({"convert", Path("f"), Path("other"), "--step", "1"}, there);
  ExpectRefused({"reshard", saved, Path("other"), "--shards", "2"}, there);
  EXPECT_THAT(Succeeds({"ls", other}), HasSubstr("f32[2]"));
  Succeeds({"convert", Path("f"), Path("other"), "--step", "1", "--force"});
  EXPECT_EQ(Succeeds({"diff", saved, other}),
            "fact epoch: 3 and none\nmetric loss: 1 and none\n8 of 8 variables the same\n");
  Succeeds({"reshard", saved, Path("other"), "--shards", "2", "--force"});
  // A checkpoint can also replace itself.
  Succeeds({"reshard", saved, Path("runs"), "--shards", "3", "--force"});
  EXPECT_EQ(Succeeds({"diff", saved, other}), "8 of 8 variables the same\n");
  EXPECT_THAT(Succeeds({"ls", saved}), HasSubstr("3 shards"));
  EXPECT_THAT(NamesIn(Path("runs")), ElementsAre("lock", "step-000000000001"));
}

// The new hashes of a converted checkpoint would hide the damage.
TEST_F(CheckpointToolTest, ADamagedCheckpointIsNotConverted) {
  const std::string saved = Save("runs", 1);
  Damage(saved + "/" + ShardName(1, 2));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"convert", saved, Path("out")},
                                               {"reshard", saved, Path("out"), "--shards", "1"}}) {
    const Finished finished = Checkpoint(args);
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, HasSubstr("the file is damaged"));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

TEST_F(CheckpointToolTest, AWriteThatFailsLeavesWhatWasThere) {
  const std::string saved = Save("runs", 1, 1, {{"w", {F32, {1000, 100}}, "{a,_}"}});
  Succeeds({"convert", saved, Path("f")});
  std::filesystem::create_directory(Path("out"));
  File("g", "old");
  for (const char* command : {"convert runs g --force", "convert f out", "reshard runs out --shards 2"}) {
    const Finished finished =
        Shell(fmt::format("trap '' XFSZ; ulimit -f 100; \"$0\" checkpoint {}", command));
    EXPECT_NE(finished.code, 0) << command;
    EXPECT_THAT(finished.err, HasSubstr("File too large")) << command;
  }
  EXPECT_EQ(Contents(Path("g")), "old");
  EXPECT_THAT(NamesIn(Path("out")), ElementsAre("lock"));
  EXPECT_THAT(NamesIn(dir()), UnorderedElementsAre("f", "g", "out", "runs", "step.mw"));
}

// It does not write where a training writes, either.
TEST_F(CheckpointToolTest, WaitsForNoOtherJob) {
  const std::string saved = Save("runs", 1);
  Succeeds({"convert", saved, Path("f")});
  const CheckpointLock lock = CheckpointLock::Take(Path("busy")).value();
  for (const std::vector<std::string>& args : {std::vector<std::string>{"convert", Path("f"), Path("busy")},
                                               {"reshard", saved, Path("busy"), "--shards", "1"}}) {
    const Finished finished = Checkpoint(args);
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, HasSubstr("another job writes its checkpoints there"));
  }
}

// ---- reshard.

TEST_F(CheckpointToolTest, ReshardsToFilesOfEqualSize) {
  std::vector<SavedVariable> variables = SavedModel();
  variables.push_back({"z", {F32, {1000, 100}}, "{b,_}"});
  const std::string saved = Save("runs", 100, 2, variables);
  EXPECT_EQ(Succeeds({"reshard", Path("runs"), Path("out"), "--shards", "3"}),
            "DIR/out/step-000000000100: 9 variables of DIR/runs/step-000000000100, 391 KiB in 3 shards\n");
  EXPECT_EQ(Succeeds({"diff", saved, Path("out")}), "9 of 9 variables the same\n");
  const json list = json::parse(Succeeds({"ls", Path("out/step-000000000100"), "--json"}));
  EXPECT_EQ(list["mesh"], "[a=2*2, b=2]");  // the mesh of the training
  EXPECT_EQ(
      list["variables"][8],
      json::parse(
          R"json({"name": "z", "type": "f32[1000,100]", "layout": "{b,_}", "pieces": 3, "bytes": 400000})json"));
  for (const json& shard : list["shards"])
    EXPECT_LT(std::abs(shard["bytes"].get<double>() - 400000 / 3), 2000);
  EXPECT_EQ(Succeeds({"reshard", saved, Path("one"), "--shards=1"}),
            "DIR/one/step-000000000100: 9 variables of DIR/runs/step-000000000100, 391 KiB in 1 shard\n");
  EXPECT_EQ(Succeeds({"diff", Path("one"), Path("out")}), "9 of 9 variables the same\n");
}

TEST_F(CheckpointToolTest, ReshardsForAMesh) {
  const std::string saved = Save("runs", 100);
  const auto places = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"reshard", saved, Path("out"), "--force"};
    args.insert(args.end(), flags.begin(), flags.end());
    Succeeds(args);
    EXPECT_EQ(Succeeds({"diff", saved, Path("out")}), "8 of 8 variables the same\n");
    const json list = json::parse(Succeeds({"ls", Path("out/step-000000000100"), "--json"}));
    std::vector<std::string> texts = {
        fmt::format("{}, {} shards", list["mesh"].get<std::string>(), list["shards"].size())};
    for (const json& variable : list["variables"])
      texts.push_back(fmt::format("{} {} {}", variable["name"].get<std::string>(),
                                  variable["layout"].get<std::string>(), variable["pieces"].get<int>()));
    return texts;
  };
  // Layouts by pattern: the last match counts. Other variables keep their layouts if the mesh has the axes.
  EXPECT_THAT(places({"--mesh", "b=3,c=2", "--layout", "[wa]*={_,_}", "--layout=adam/m={(b,c),_}", "--layout",
                      "w={c,b}"}),
              ElementsAre("[b=3, c=2], 6 shards", "adam/m {(b,c),_} 5", "bias {_} 1", "count {} 1",
                          "empty {_,_} 0", "mask {b,_} 3", "narrow {_} 1", "strided {_} 1", "w {c,b} 6"));
  // Existing layouts of variables do not prevent the requested ones, whatever cut of the mesh those need.
  const std::string cut = Save("cut", 100, 2, {{"b", {F32, {4}}, "{a:(1)2}"}, {"w", {F32, {4}}, "{_}"}});
  Succeeds({"reshard", cut, Path("cut3"), "--mesh", "a=6", "--layout", "w={a:(1)3}", "--shards", "1"});
  EXPECT_THAT(Succeeds({"ls", Path("cut3/step-000000000100")}),
              AllOf(HasSubstr("on mesh [a=3*2]\n"), HasSubstr("b         f32[4]  {_}            1"),
                    HasSubstr("w         f32[4]  {a:(1)3}       2")));
  // Fewer files than devices, and layouts that factor the mesh.
  EXPECT_THAT(
      places({"--mesh=a=8", "--shards=2", "--layout=w={a:(1)4,_}", "--layout=strided={a}"}),
      ElementsAre("[a=2*2*2], 2 shards", "adam/m {_,_} 1", "bias {a} 7", "count {} 1", "empty {a,_} 0",
                  "mask {_,_} 1", "narrow {_} 1", "strided {a} 8", "w {a:(1)4,_} 4"));
}

}  // namespace
}  // namespace meshwork::meshwork_checkpoint_test
