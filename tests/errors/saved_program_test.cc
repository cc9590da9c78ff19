// What is refused of saved programs. DIR stands for a directory of this run.
#include "meshwork/session/saved/saved_program.h"

#include <filesystem>

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "meshwork/storage/hashed_json.h"
#include "support/temp_dir.h"

namespace meshwork::saved_program_test {
namespace {

class SavedProgramErrors : public TempDirTest {
 protected:
  SavedProgramErrors() {
    Graph g(Mesh::Parse("batch=2").value());
    Value x = g.Input("x", F32, {4, 3}, {"batch", UNSHARDED});
    Value y = MatMul(x, g.Var("w", Filled(1, {3, 2}), {UNSHARDED, UNSHARDED}));
    g.Output("y", y);
    g.Output("total", ReduceSum(y));
    session_.emplace(Session::Create(g, kOne).value());
    path_ = SaveProgram(*session_, Path("saved"), {.functions = {{"predict", {"y"}}}}).value();
  }
  static inline const SessionOptions kOne{.workers = 1, .own_cores = false};

  absl::Status Load(const std::string& path, LoadOptions options = {}) {
    options.session = kOne;
    return SavedProgram::Load(path, options).status();
  }
  // The status of loading the version with this file changed; the file is as before afterwards.
  absl::Status LoadWith(const std::string& name, const std::string& from, const std::string& to,
                        bool with_hash = false) {
    const std::string file = path_ + "/" + name, good = ReadFile(file).value();
    std::string bad = good;
    const size_t at = bad.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bad.replace(at, from.size(), to);
    if (with_hash) bad = WithHash(bad.substr(0, bad.rfind(",\"sha256\":")) + "}");
    EXPECT_TRUE(WriteFileAtomically(file, bad).ok());
    absl::Status status = Load(path_);
    EXPECT_TRUE(WriteFileAtomically(file, good).ok());
    return status;
  }
  absl::Status LoadWithout(const std::string& name) {
    const std::string file = path_ + "/" + name;
    std::filesystem::rename(file, Path("away"));
    absl::Status status = Load(path_);
    std::filesystem::rename(Path("away"), file);
    return status;
  }
  absl::Status Save(SaveProgramOptions options, const std::string& dir = "other") {
    return SaveProgram(*session_, Path(dir), options).status();
  }
  absl::Status Predict(const Feeds& feeds, std::string_view function = "predict") {
    SavedProgram program = SavedProgram::Load(path_, {.session = kOne}).value();
    return program.Predict(feeds, function).status();
  }

  std::optional<Session> session_;
  std::string path_;
};

TEST_F(SavedProgramErrors, Saving) {
  Graph none(Mesh::Parse("batch=2").value());
  Variable w = none.Var("w", Filled(1, {3}), {UNSHARDED});
  none.Update(w, w + 1.0);
  Session without = Session::Create(none, kOne).value();
  ASSERT_TRUE(WriteFileAtomically(Path("plain"), "").ok());
  const auto session_of = [](std::string_view text) {
    return Session::Create(ParseGraph(text).value(), kOne).value();
  };
  const std::string negated = "mesh [] func f(%x: f32[4]) { %y = neg %x return y=%y }";
  Session unnamed = session_of("mesh [] func f(%x: f32[4]) { %y = neg %x return %y }");
  Session late = session_of(negated), moved = session_of(negated);
  late.set_steps_done(-1);
  const Session elsewhere = std::move(moved);
  Session rows =
      session_of("mesh [] func f(%a: f32[4], %x: f32[8]) { %y = neg %x %z = neg %a return y=%y, z=%z }");
  ExpectErrors(
      "saved_program_save",
      {MISTAKE(Save({.functions = {{"predict", {"yy"}}}})), MISTAKE(Save({.functions = {{"predict", {}}}})),
       MISTAKE(Save({.functions = {{"\xff", {"y"}}}})), MISTAKE(SaveProgram(without, Path("other")).status()),
       MISTAKE(Save({}, "plain")), MISTAKE(SaveProgram(unnamed, Path("other")).status()),
       MISTAKE(SaveProgram(late, Path("other")).status()),
       MISTAKE(SaveProgram(moved, Path("other")).status()),
       MISTAKE(SaveProgram(rows, Path("other"), {.functions = {{"predict", {"y"}}}}).status())},
      {{dir(), "DIR"}});
}

TEST_F(SavedProgramErrors, Loading) {
  ASSERT_EQ(Load(path_), absl::OkStatus());
  std::filesystem::create_directory(Path("empty"));
  ExpectErrors(
      "saved_program_load",
      {
          MISTAKE(Load(Path("nowhere"))),
          MISTAKE(Load(Path("empty"))),
          MISTAKE(Load(Path("saved"), {.version = 7})),
          MISTAKE(Load(path_, {.layouts = {{"v", {UNSHARDED, UNSHARDED}}}})),
          MISTAKE(LoadWithout("program.mw")),
          MISTAKE(LoadWithout("plan-0.json")),
          MISTAKE(LoadWithout("weights")),
          MISTAKE(LoadWithout("program.json")),
          MISTAKE(LoadWith("program.mw", "matmul", "MATMUL")),
          MISTAKE(LoadWith("plan-0.json", "{", "[")),
          MISTAKE(LoadWith("program.json", "\"}\n", "\"}")),
          MISTAKE(LoadWith("program.json", "\"format\":1", "\"format\":2")),
          MISTAKE(LoadWith("program.json", "\"format\":1", "\"format\":0")),
          MISTAKE(LoadWith("program.json", "\"format\":1", "\"format\":1,\"x\":1", true)),
          MISTAKE(LoadWith("program.json", "\"name\":\"y\"", "\"name\":\"z\"", true)),
          MISTAKE(LoadWith("program.json", "[\"plan-0.json\"]", "[\"plan-1.json\"]", true)),
          MISTAKE(LoadWith("program.json", "[\"plan-0.json\"]", "[]", true)),
          MISTAKE(LoadWith("program.json", "plan-0.json\",\"bytes", "../x\",\"bytes", true)),
          MISTAKE(LoadWith("program.json",
                           "\"outputs\":[{\"name\":\"y\",\"type\":\"f32[4,2]\",\"batch\":true}]",
                           "\"outputs\":[]", true)),
          {"a function twice", LoadWith("program.json", "\"functions\":[",
                                        R"("functions":[{"name":"predict","inputs":[],)"
                                        R"("outputs":[{"name":"y","type":"f32[4,2]","batch":true}]},)",
                                        true)},
          MISTAKE(LoadWith("program.json", "weights/step-000000000000", "weights/../weights", true)),
          MISTAKE(LoadWith("program.json", "\"mesh\":\"[batch=2]\"", "\"mesh\":\"[batch=4]\"", true)),
          MISTAKE(LoadWith("weights/step-000000000000/index.json", "f32[3,2]", "f32[3,3]")),
      },
      {{dir(), "DIR"}});
}

// A version whose plans are of no use here is compiled anew.
TEST_F(SavedProgramErrors, PlansOfAnotherVersionMayBeLeftOut) {
  EXPECT_EQ(LoadWith("program.json", fmt::format("\"meshwork\":\"{}\"", MESHWORK_VERSION),
                     "\"meshwork\":\"0.0.1\"", true),
            absl::OkStatus());
  const std::string file = path_ + "/program.json";
  std::string text = ReadFile(file).value();
  text.replace(text.find("[\"plan-0.json\"]"), 15, "[]");
  text.replace(text.find(MESHWORK_VERSION), std::string_view(MESHWORK_VERSION).size(), "0.0.1");
  ASSERT_TRUE(WriteFileAtomically(file, WithHash(text.substr(0, text.rfind(",\"sha256\":")) + "}")).ok());
  const absl::StatusOr<SavedProgram> program = SavedProgram::Load(path_, {.session = kOne});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_FALSE(program->runs_as_saved());
}

TEST_F(SavedProgramErrors, Predicting) {
  const Tensor x(Type{F32, {4, 3}}), wide(Type{F32, {4, 4}});
  ASSERT_EQ(Predict({{"x", x}}), absl::OkStatus());
  ExpectErrors("saved_program_predict",
               {MISTAKE(Predict({{"x", x}}, "predikt")), MISTAKE(Predict({})),
                MISTAKE(Predict({{"x", wide}})), MISTAKE(Predict({{"x", x}, {"z", x}}))},
               {{dir(), "DIR"}});
}

}  // namespace
}  // namespace meshwork::saved_program_test
