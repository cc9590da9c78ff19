#include "docs/commands.h"

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "docs/page.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "tools/cli/process.h"

namespace meshwork::docs {
namespace {

using Words = std::vector<std::string>;

bool IsFlag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }
std::string FlagName(const std::string& word) { return word.substr(0, word.find('=')); }

class CommandChecker {
 public:
  explicit CommandChecker(const CommandContext& context) : context_(context) {}

  std::string Check(Words words) const {
    static const std::regex setting("[A-Z_]+=.*");
    while (!words.empty() && (std::regex_match(words[0], setting) || words[0] == "sudo"))
      words.erase(words.begin());
    if (words.empty()) return "";  // NAME=value alone
    const std::string command = words[0];
    words.erase(words.begin());
    static const std::map<std::string, std::string (CommandChecker::*)(const Words&) const> kChecks = {
        {"./dev", &CommandChecker::Dev},       {"cmake", &CommandChecker::Cmake},
        {"ctest", &CommandChecker::Ctest},     {"cpack", &CommandChecker::Cpack},
        {"apt-get", &CommandChecker::Install}, {"apt", &CommandChecker::Install},
        {"git", &CommandChecker::Git},         {"cd", &CommandChecker::Nothing},
        {"g++", &CommandChecker::Compiler},    {"c++", &CommandChecker::Compiler},
        {"python3", &CommandChecker::Python},  {"pkg-config", &CommandChecker::PkgConfig},
        {"mkdir", &CommandChecker::Nothing},   {"kubectl", &CommandChecker::Nothing},
        {"mpirun", &CommandChecker::Launcher}, {"srun", &CommandChecker::Launcher},
        {"sbatch", &CommandChecker::Launcher}, {"meshwork", &CommandChecker::Meshwork},
        {"pip", &CommandChecker::Nothing},     {"tensorboard", &CommandChecker::TensorBoard},
        {"openssl", &CommandChecker::Nothing},
    };
    const auto check = kChecks.find(command);
    if (check != kChecks.end()) return (this->*check->second)(words);
    return Program(command, words);
  }

 private:
  bool Exists(const std::string& path) const { return std::filesystem::exists(context_.root / path); }
  std::string TextOf(const std::string& path) const { return Contents(context_.root / path); }

  // Every flag of `words` is one of `known`.
  static std::string Flags(const std::string& command, const Words& words,
                           const std::set<std::string>& known) {
    for (const std::string& word : words)
      if (IsFlag(word) && !known.contains(FlagName(word)))
        return fmt::format("{} has no flag {}", command, FlagName(word));
    return "";
  }

  std::string Preset(const std::string& name) const {
    const nlohmann::json presets = nlohmann::json::parse(TextOf("CMakePresets.json"));
    for (const auto& preset : presets.at("configurePresets"))
      if (preset.at("name") == name && !preset.value("hidden", false)) return "";
    return fmt::format("CMakePresets.json has no preset \"{}\"", name);
  }
  std::string PresetFlag(const Words& words) const {
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i].starts_with("--preset=")) return Preset(words[i].substr(9));
      if (words[i] == "--preset" && i + 1 < words.size()) return Preset(words[i + 1]);
    }
    return "";
  }

  std::string Help(const std::string& program, const Words& args) const {
    static std::map<std::string, std::string> helps;
    std::string& help = helps[program];
    if (help.empty()) help = RunProcess(program, args, context_.scratch).out;
    return help;
  }
  std::string MlpMnist(const Words& words) const {
    std::set<std::string> known;
    const std::string help = Help(context_.mlp_mnist, {"--help"});
    const std::regex flag("\n  (--[a-z-]+) ");
    for (auto at = std::sregex_iterator(help.begin(), help.end(), flag); at != std::sregex_iterator(); ++at)
      known.insert((*at)[1].str());
    return Flags("mlp_mnist", words, known);
  }

  std::string Dev(const Words& words) const {
    if (words.empty()) return "./dev takes a command";
    const std::string help = Help(context_.root / "dev", {"help"});
    if (help.find(fmt::format("\n  {} ", words[0])) == std::string::npos)
      return fmt::format("./dev help lists no command \"{}\"", words[0]);
    if (words[0] == "mnist") return MlpMnist({words.begin() + 1, words.end()});
    if (words[0] == "bench" && words.size() > 1 && !IsFlag(words[1]) &&
        help.find(fmt::format("\n  bench {} ", words[1])) == std::string::npos)
      return fmt::format("./dev help lists no \"bench {}\"", words[1]);
    if ((words[0] == "test" || words[0] == "build") && words.size() > 1 && !IsFlag(words[1]))
      return Preset(words[1]);
    return "";
  }

  std::string TensorBoard(const Words& words) const { return Flags("tensorboard", words, {"--logdir"}); }

  std::string Cmake(const Words& words) const {
    const std::string options = TextOf("CMakeLists.txt");
    Words rest;
    for (const std::string& word : words) {
      if (!word.starts_with("-D")) {
        rest.push_back(word);
        continue;
      }
      const std::string name = word.substr(2, word.find_first_of(":=") - 2);
      if (!name.starts_with("CMAKE_") && name != "BUILD_SHARED_LIBS" &&
          options.find("(" + name + " ") == std::string::npos)
        return fmt::format("CMakeLists.txt has no option {}", name);
    }
    const std::string unknown =
        Flags("cmake", rest,
              {"--preset", "--build", "--install", "--prefix", "--target", "--parallel", "-S", "-B", "-G"});
    return unknown.empty() ? PresetFlag(words) : unknown;
  }
  std::string Ctest(const Words& words) const {
    const std::string unknown =
        Flags("ctest", words, {"--preset", "--test-dir", "--output-on-failure", "-R", "--parallel"});
    return unknown.empty() ? PresetFlag(words) : unknown;
  }
  std::string Cpack(const Words& words) const {
    return Flags("cpack", words, {"-G", "-B", "--config", "--preset"});
  }
  std::string Git(const Words& words) const {
    static const std::set<std::string> kKnown = {"clone", "log", "diff", "status", "add", "commit"};
    return !words.empty() && kKnown.contains(words[0]) ? "" : "git is told to do something unheard of";
  }
  std::string PkgConfig(const Words& words) const {
    const std::string unknown =
        Flags("pkg-config", words, {"--cflags", "--libs", "--static", "--modversion"});
    if (!unknown.empty()) return unknown;
    return std::count(words.begin(), words.end(), "meshwork") == 1 ? ""
                                                                   : "pkg-config is not asked for meshwork";
  }
  // The program that a launcher starts is its first argument with a slash; the launcher's own flags stand before it.
  std::string Launcher(const Words& words) const {
    const auto program = std::find_if(words.begin(), words.end(), [](const std::string& word) {
      return !IsFlag(word) && word.find('/') != std::string::npos;
    });
    return program == words.end() ? "a launcher has no program to start" : Check(Words(program, words.end()));
  }
  // The command of supervise stands behind "--". For import no model is at hand. Other commands of the program are in
  // blocks whose output is compared.
  std::string Meshwork(const Words& words) const {
    static const std::map<std::string, std::set<std::string>> kFlags = {
        {"import gguf", {"--dtype", "--keep-blocks", "--force"}},
        {"import stablehlo", {"--mesh", "--weights", "--update", "--variable", "--force"}},
        {"save", {"--mesh", "--layout", "--weights", "--checkpoint", "--function"}},
        {"predict", {"--inputs", "--outputs", "--function", "--mesh"}}};
    for (const auto& [command, flags] : kFlags)
      if (fmt::format("{} ", fmt::join(words, " ")).starts_with(command + " "))
        return Flags("meshwork " + command, words, flags);
    const auto end = std::find(words.begin(), words.end(), "--");
    if (words.empty() || words[0] != "supervise" || end == words.end())
      return "meshwork is told to do something unheard of";
    return Check(Words(end + 1, words.end()));
  }
  std::string Compiler(const Words&) const { return ""; }
  std::string Nothing(const Words&) const { return ""; }
  std::string Python(const Words& words) const {
    for (const std::string& word : words)
      if (word.ends_with(".py") && !Exists(word)) return fmt::format("there is no {}", word);
    return "";
  }

  // Packages are those that ./dev installs, or files.
  std::string Install(const Words& words) const {
    const std::string dev = TextOf("dev");
    static const std::set<std::string> kWords = {"install", "update", "-y", "--no-install-recommends"};
    for (const std::string& word : words) {
      if (kWords.contains(word) || word.ends_with(".deb")) continue;
      if (dev.find(fmt::format("\"{} ", word)) == std::string::npos)
        return fmt::format("./dev installs no package {}", word);
    }
    return "";
  }

  // A file of the repository, or what the build makes of one: build/PRESET/FOLDER/NAME.
  std::string Program(const std::string& command, const Words& words) const {
    if (command.starts_with("examples/multi_worker/") && Exists(command)) return Launcher(words);
    if (command.find('/') != std::string::npos && Exists(command)) return "";
    static const std::regex built("build/([a-z-]+)/(examples|benchmarks|tests)/([a-z_/]+)");
    std::smatch match;
    if (!std::regex_match(command, match, built))
      return fmt::format("{} is no command that tests/docs/commands.cc knows", command);
    const std::string wrong = Preset(match[1]);
    if (!wrong.empty()) return wrong;
    if (match[3] == "mlp_mnist") return MlpMnist(words);
    const std::string stem = fmt::format("{}/{}", match[2].str(), match[3].str());
    std::string test = stem;  // tests/layout_test is made of tests/layout/
    if (test.ends_with("_test")) test.resize(test.size() - 5);
    return Exists(stem + ".cc") || Exists(stem) || Exists(test) ? ""
                                                                : fmt::format("nothing builds {}", command);
  }

  const CommandContext& context_;
};

// A line as simple commands: a pipeline, or several joined by &&.
std::vector<Words> Commands(const std::string& line) {
  std::vector<Words> commands(1);
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    if (word.starts_with("#")) break;
    if (word == "&&" || word == "|") commands.emplace_back();
    else commands.back().push_back(word);
  }
  return commands;
}

}  // namespace

std::string CheckCommands(std::string_view text, const CommandContext& context) {
  const CommandChecker checker(context);
  std::string wrong, command;
  for (const std::string& line : Lines(text)) {
    command += line;
    if (command.ends_with('\\')) {
      command.back() = ' ';
      continue;
    }
    for (const Words& words : Commands(command)) {
      const std::string error = words.empty() ? "" : checker.Check(words);
      if (!error.empty()) wrong += fmt::format("{}\n  {}\n", command, error);
    }
    command.clear();
  }
  return wrong;
}

}  // namespace meshwork::docs
