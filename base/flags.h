// Command-line arguments of the programs: flags (--name value or --name=value), switches (--name), and
// positional arguments, which have a place instead of a name.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace meshwork {

// "500ms", "1s", "5min", "2h": as FlagTable::Duration reads it, in the largest unit of which it is a whole number.
std::string DurationToString(std::chrono::milliseconds duration);

// A table of flags and positional arguments; each of them writes one field.
//
//   FlagTable flags("mlp_mnist", "Trains …");
//   flags.Int("epochs", "passes over the training data", &options.epochs, /*at_least=*/0);
//   MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
class FlagTable {
 public:
  FlagTable(std::string program, std::string about)
      : program_(std::move(program)), about_(std::move(about)) {}

  // The target's value at this time is the default that Help shows.
  void Text(std::string name, std::string help, std::string* target);
  void Int(const std::string& name, std::string help, int64_t* target, int64_t at_least,
           int64_t at_most = std::numeric_limits<int64_t>::max());
  // As Text, and may be given several times: adds to the target.
  void Texts(std::string name, std::string help, std::vector<std::string>* target);
  // A time, at least 0: a number, then ms, s, min or h.
  void Duration(const std::string& name, std::string help, std::chrono::milliseconds* target);
  // A number of bytes, at least 0: digits, then KiB, MiB, GiB or nothing.
  void Bytes(const std::string& name, std::string help, int64_t* target);
  void Real(const std::string& name, std::string help, double* target, double above);
  // One of `choices`.
  void Choice(const std::string& name, const std::string& help, std::string* target,
              std::vector<std::string> choices);

  // --name alone, without a value, sets the target to true. REQUIRES: the target is false.
  void Switch(std::string name, std::string help, bool* target);

  // The next argument that is not a flag; "-" is not a flag. The argument must be given.
  void Positional(std::string name, std::string help, std::string* target);
  // The arguments after "--", for another program; at least one. If Rest is not called, "--" is an error.
  void Rest(std::string name, std::string help, std::vector<std::string>* target);

  // Reads argv[1..]. Errors: an unknown flag (with the nearest name), a value that is missing or wrong,
  // or given to a switch; arguments that are missing, or too many.
  // "--help" sets help_asked() and stops.
  absl::Status Parse(int argc, const char* const* argv);
  bool help_asked() const { return help_asked_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name, help, fallback;
    std::function<absl::Status(const std::string& value)> set;
    bool is_switch = false;
  };
  struct Place {
    std::string name, help;
    std::string* target;
  };
  std::string program_, about_;
  std::vector<Place> places_;
  std::string rest_name_, rest_help_;
  std::vector<std::string>* rest_ = nullptr;
  std::vector<Flag> flags_;
  bool help_asked_ = false;
};

}  // namespace meshwork
