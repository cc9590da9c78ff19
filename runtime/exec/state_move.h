// StateMove: the variables of a program, and what optimizers keep, moved from one placement to another without disk.
//
//   StateMove move = StateMove::Plan({old_placement}, {new_placement}, variables);   // in each process, all alike
//   if (!move.lost().empty()) …                                                      // some blocks nobody has
//   std::map<std::string, DTensor> made;
//   MESHWORK_RETURN_IF_ERROR(move.Run(transport, memory, old, made));                // empties `old`
//
// PlanSend (layout/send.h) says what goes where. Variables move one after the other, small ones in groups, in rounds of
// at most `max_bytes_in_flight` bytes. The old block of a variable is freed as soon as the new one is full. Variables
// whose blocks get smaller go first, those with the smallest new block first. Then those that get larger go, those with
// the largest old block first. If variables move one by one, no other order needs less memory.
//
// Law: with the bytes that the state takes in a process, before and after, and those of the largest variable,
//   peak_bytes() <= max(before, after) + max(largest, max_bytes_in_flight) + max_bytes_in_flight,
// where `largest` counts the smaller of a variable's two blocks. A process has never more of old state, new state and
// messages than peak_bytes(), unless somebody else keeps old DTensors.
//
// Thread safety: const functions may be called concurrently; Run uses the transport.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/send.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/exec/transport.h"

namespace meshwork {

// The domains of a placement, and the process that has the memory of each (SendSide::processes).
struct PlacedDomains {
  Placement placement;
  std::vector<int64_t> processes = {};
};

// A variable that moves.
struct MovedVariable {
  Type type;
  Layout from, to;  // on the placements' meshes, without partials
};

struct StateMoveOptions {
  // The most bytes that a process sends and receives in a round, in all. It needs as much memory for packed messages.
  int64_t max_bytes_in_flight = int64_t{64} << 20;
  // The `share` of the old DTensors and of the new ones, see DTensor.
  bool share = true;
};

class StateMove {
 public:
  // The least max_bytes_in_flight: a few elements.
  static constexpr int64_t kLeastInFlight = 64;

  // Moves nothing. REQUIRES: the layouts fit the types; a process has at most one domain of either placement;
  // processes of `to` are not lost; max_bytes_in_flight >= kLeastInFlight.
  static StateMove Plan(const PlacedDomains& from, const PlacedDomains& to,
                        const std::map<std::string, MovedVariable>& variables,
                        const StateMoveOptions& options = {});

  // The blocks of the global tensor that no process has, by variable.
  const std::map<std::string, std::vector<Block>>& lost() const { return lost_; }
  // Bytes of elements that cross between processes: those that a process sends, receives, and all of them. Law: the
  // total is the bytes that each domain needs and its process does not have, without those that are lost.
  int64_t sent_bytes(int64_t process) const;
  int64_t received_bytes(int64_t process) const;
  int64_t total_bytes() const;
  // The most that a process has of old state, new state and messages, in bytes.
  int64_t peak_bytes() const { return peak_bytes_; }
  // All variables, in the order in which they move.
  std::vector<std::string> order() const;

  // Moves the variables. All processes of the transport call it, also those without a domain; null: there is only
  // process 0. `old`: this process's blocks, none if it has no domain of the old placement; a variable is taken out
  // when it has moved. `made`: gets this process's blocks; DTensors that are there already are filled. Lost elements
  // are zeros in new DTensors, and keep their values in the others. Errors: those of the transport and of the memory,
  // after which `old` and `made` have a part of the state each. Throws std::bad_alloc if there is not enough memory.
  // REQUIRES: the DTensors are as the plan says.
  absl::Status Run(Transport* transport, const std::shared_ptr<Memory>& memory,
                   std::map<std::string, DTensor>& old, std::map<std::string, DTensor>& made) const;

 private:
  struct Variable {
    std::string name;
    MovedVariable moved;
    int64_t old_bytes = 0, new_bytes = 0;  // in a process
    std::vector<SentPiece> pieces = {};
  };
  // A piece, or a part of one.
  struct Chunk {
    size_t variable = 0;
    SentPiece piece;
    int64_t from = 0, to = 0;  // processes
    int64_t bytes = 0;
  };
  using Round = std::vector<Chunk>;  // what crosses at a time
  // Variables that move at a time: [begin, end).
  struct Group {
    size_t begin = 0, end = 0;
    std::vector<Chunk> copies;  // within processes
    std::vector<Round> rounds;
    int64_t scratch_bytes = 0;  // the most that a process needs for messages
  };
  class Mover;

  void MakeGroups();
  void PlanGroup(Group& group);

  PlacedDomains from_, to_;
  StateMoveOptions options_;
  std::vector<Variable> variables_;  // in order
  std::vector<Group> groups_;
  std::map<std::string, std::vector<Block>> lost_;
  std::map<int64_t, int64_t> sent_, received_;  // by process
  int64_t peak_bytes_ = 0;
};

}  // namespace meshwork
