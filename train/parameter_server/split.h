// Splits a training program between workers, which compute gradients, and parameter servers, which keep the variables and
// update them.
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
// The cut is found in the graph, so updates written by hand are split as those of optimizers are. Servers run what is
// computed *by row* of a weight, its gradient, its state, and scalars; a piece needs its own rows then, and no others. All
// else is computed by workers: the gradients, their norm and its clipping, whether they are finite. Of several cuts that
// push as few bytes, the one nearest to the gradients is taken. Three kinds of variables:
//
//   - Variables with dims are kept in pieces, blocks of rows. Those that are computed of one another by row – a weight, its
//     optimizer's state, its moving average – are cut alike, and lie on one server. An update that is not by row (Lamb: the
//     lengths of whole weights and updates) needs its variable in one piece.
//   - Shared scalars – counts of steps, loss scales, metrics' sums: scalars that are not trained – are kept by every server,
//     which updates them once per push.
//   - What is only read is only pulled.
//
// A table [n,d] that the program reads by Gather along dim 0 alone, at ids that come from inputs, is *sparse* if a batch has
// fewer ids than the table rows: workers pull and push the rows that their batch names, and servers update these rows alone.
// For Sgd without weight decay, and Adagrad, that is the same; Momentum, Adam and others leave the state of the other rows as
// it is, and do not move them, as TensorFlow's LazyAdam; so do weight decay and moving averages. SplitOptions::sparse_rows
// turns it off.
//
// With one worker, what the worker and the servers compute is what Session::Run of the graph computes. With several, a
// gradient is applied to a newer weight than it was computed at; so are weight decay and what else servers compute. A value
// that workers compute whole and that replaces a variable (batch statistics that were joined by a product, say) replaces
// what other workers pushed meanwhile.
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

// What a worker pushes to a server: rows of an output of its program.
struct PushedRows {
  // PieceRows::piece of the push: the piece's name that it is the gradient of; of scalars "values/0".
  std::string name;
  std::string output;  // of the worker's program
  RowRange rows;       // of dim 0; {0, 1} for a scalar
  Type type;           // of these rows
  int64_t server = 0;
  bool is_sparse = false;  // of these rows, those that the batch names, with their numbers
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
  // What a server runs for some rows: from "rows/NAME" of what is kept, "push/NAME" and "shared/NAME" of shared scalars, the
  // outputs "rows/NAME". It is written for kTemplateRows rows; Rebatch (ops/control/rebatch.h) gives it for others.
  Graph update;
};
inline constexpr int64_t kTemplateRows = 1009;

struct TrainingSplit {
  // What a worker runs: on the graph's mesh, with the graph's inputs and outputs, an output for each value that is pushed,
  // and those variables that it reads. It updates nothing.
  Graph worker;
  // The ids of a batch, from the same inputs; empty if no table is sparse.
  Graph ids;
  std::vector<SparseVariable> sparse;
  // What each server runs for a push: on one device. Its variables are the server's pieces, its inputs, "push/NAME", what is
  // pushed. It does not update sparse tables.
  std::vector<Graph> servers;
  // By the declarations of the graph, then by rows. A shared scalar: one per server.
  std::vector<VariablePiece> pieces;
  std::vector<PushedRows> pushed;
  // The graph's variables with their initializers, on one device.
  Graph variables;
};

// The names of inputs of servers' programs.
std::string PushInput(std::string_view name);    // "push/NAME"
std::string RowsOf(std::string_view name);       // "rows/NAME", an output, too
std::string SharedInput(std::string_view name);  // "shared/NAME"

// Errors: those of the graph; it updates nothing; those of PlacePieces; a partitioner that gives less than one piece or more
// than there are rows; an update that cannot be cut so.
absl::StatusOr<TrainingSplit> SplitTraining(const Graph& graph, const SplitOptions& options = {});

}  // namespace meshwork
