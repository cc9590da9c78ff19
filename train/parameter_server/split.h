// Splits a training program between workers, which compute gradients, and parameter servers, which keep the variables
// and update them.
//
//   Graph graph(mesh);                                               // as for a Session
//   …
//   graph.Output("loss", loss);
//   Adam({.clip_norm = 1}).Minimize(loss);
//   MESHWORK_ASSIGN_OR_RETURN(const TrainingSplit split,
//                             SplitTraining(graph, {.num_servers = 2, .partitioner = FixedShardsPartitioner(2)}));
//   MESHWORK_ASSIGN_OR_RETURN(auto store, ShardStore::Create(split, {.server = 0}));       // shard_store.h, in a server
//   MESHWORK_ASSIGN_OR_RETURN(auto session, ServedSession::Create(split, {store, …}));     // served_session.h, in a worker
//
// The cut is found in the graph, so updates written by hand are split as those of optimizers are. Servers run the part
// that is computed *by row* of a weight, its gradient, its state, and scalars; so a piece needs its own rows and no
// others. Workers compute everything else: the gradients, their norm and its clipping, whether they are finite. Of the
// cuts that push the fewest bytes, the one nearest to the gradients is taken. Three kinds of variables:
//
//   - Variables with dims are kept in pieces, blocks of rows. Those that are computed of one another by row – a weight, its
//     optimizer's state, its moving average – are cut alike, and lie on one server. An update that is not by row (Lamb: the
//     lengths of whole weights and updates) needs its variable in one piece.
//   - Shared scalars – counts of steps, loss scales, metrics' sums: scalars that are not trained – are kept by every server,
//     which updates them once per push.
//   - What is only read is only pulled.
//
// A table [n,d] that the program reads by Gather along dim 0 alone, at ids that come from inputs, is *sparse* if a
// batch has fewer ids than the table has rows: workers pull and push the rows that their batch names, and servers
// update only these rows. For Sgd without weight decay, and Adagrad, the result is the same. Momentum, Adam and others
// do not change the state of the other rows, and do not move them, as TensorFlow's LazyAdam; the same holds for weight
// decay and moving averages. SplitOptions::sparse_rows turns it off.
//
// With one worker, the worker and the servers together compute the same as Session::Run of the graph. With several, a
// gradient is applied to a newer weight than it was computed at; so are weight decay and everything else that servers
// compute. If workers compute a value that replaces a whole variable (batch statistics that were joined by a product,
// say), it also replaces the values that other workers pushed meanwhile.
//
// Pure functions; thread-safe. A TrainingSplit is the same in all processes that make it of the same graph and options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/train/parameter_server/partitioners.h"

namespace meshwork {

struct SplitOptions {
  int64_t num_servers = 1;
  Partitioner partitioner = {};  // null: every variable is kept in one piece
  bool sparse_rows = true;  // whether tables are pulled, pushed and updated by the rows that a batch names
};

// A block of rows of a variable, on a server.
struct VariablePiece {
  std::string name;      // "dense/kernel/part_0"; of a variable in one piece "dense/kernel"
  std::string variable;  // of the graph
  RowRange rows;         // of dim 0; {0, 1} for a scalar
  Type type;             // of the piece
  int64_t server = 0;
  bool is_read = false;    // workers pull it
  bool is_sparse = false;  // the rows that a batch names
};

// One value that a worker pushes to a server: rows of an output of its program.
struct PushedRows {
  // PieceRows::piece of the push: the name of the piece whose gradient it is; for scalars "values/0".
  std::string name;
  std::string output;  // of the worker's program
  RowRange rows;       // of dim 0; {0, 1} for a scalar
  Type type;           // of these rows
  int64_t server = 0;
  bool is_sparse = false;  // only the rows, among these, that the batch names, with their numbers
};

// A sparse table.
struct SparseVariable {
  // [n,d]; in the worker's program [capacity,d]: the rows of a batch, in the order of their ids.
  std::string variable;
  int64_t rows = 0;      // n
  int64_t capacity = 0;  // as many as a batch has ids, or one more
  // Outputs of TrainingSplit::ids; the worker's inputs for the same ids, numbered anew.
  std::vector<std::string> ids;
  std::vector<std::string> kept;  // the table, and what is kept of each of its rows
  // The program that a server runs for some rows. Inputs: "rows/NAME", for each `kept`; "push/NAME"; and "shared/NAME",
  // for shared scalars. Outputs: "rows/NAME". It is written for kTemplateRows rows; Rebatch (ops/control/rebatch.h)
  // gives it for others.
  Graph update;
};
inline constexpr int64_t kTemplateRows = 1009;

struct TrainingSplit {
  // The program of a worker: on the graph's mesh, with the graph's inputs and outputs, an output for each pushed value,
  // and the variables that it reads. It updates nothing.
  Graph worker;
  // The ids of a batch, from the same inputs; empty if no table is sparse.
  Graph ids;
  std::vector<SparseVariable> sparse;
  // The program that each server runs for a push, on one device. Its variables are the server's pieces; its inputs
  // "push/NAME" are the pushed values. It does not update sparse tables.
  std::vector<Graph> servers;
  // In the order of the graph's declarations, then by rows. A shared scalar has one per server.
  std::vector<VariablePiece> pieces;
  std::vector<PushedRows> pushed;
  // The graph's variables with their initializers, on one device.
  Graph variables;
};

// The names of inputs of servers' programs.
std::string PushInput(std::string_view name);    // "push/NAME"
std::string RowsOf(std::string_view name);       // "rows/NAME", an output, too
std::string SharedInput(std::string_view name);  // "shared/NAME"

// Errors: those of the graph; it updates nothing; those of PlacePieces; a partitioner that gives less than one piece or
// more than there are rows; an update that cannot be cut so.
absl::StatusOr<TrainingSplit> SplitTraining(const Graph& graph, const SplitOptions& options = {});

}  // namespace meshwork
