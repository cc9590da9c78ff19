// Reads the attributes of a node in the text of a program, as its row has them:
//
//   dims=[0,1] keep_dims=true
//   axes=(batch,model) {batch,_}      // a layout is written without a name
//
// A layout that names a part of an axis cuts the mesh of the program that it is read for.
//
// ReadAttrs changes its reader and that program, and nothing else, so threads may read different texts.
#pragma once

#include "absl/status/statusor.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text_reader.h"

namespace meshwork {

// Reads attributes until something else comes; fills in no defaults. `graph`: the program so far. Errors: an
// attribute that the row does not have, one that is given twice, a value of another kind.
absl::StatusOr<Attrs> ReadAttrs(TextReader& text, Graph& graph, const OpRow& row);

}  // namespace meshwork
