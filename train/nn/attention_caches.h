// AttentionCaches: the keys and values of all layers of a model, as variables that a step reads and writes in place.
//
//   AttentionCaches caches(g, "cache", /*layers=*/12, {.rows = 4, .context = 2048, .kv_heads = 2, .head = 64}, places);
//   for (size_t i = 0; i < blocks.size(); ++i) x = blocks[i](x, {.cache = &caches[i]});
//   caches.Update();
//
// Programs that share variables (Session::Share) and name them alike share the caches: one of them reads a text, another one
// writes on. docs/inference.md has both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/train/nn/transformer_layers.h"

namespace meshwork {

struct AttentionCachesOptions {
  int64_t rows = 1, context = 1;   // texts, and the most steps of each
  int64_t kv_heads = 1, head = 1;  // heads of keys and values, and the dims of each
  DType dtype = F32;
  LayoutSpec layout = {};  // of each variable; if there is none, the graph's rules give it
  // i32[1]: the step is of fewer texts than there are rows: of as many as there are places, from this row on. Other rows
  // stay as they are. Nothing: the step is of all rows.
  Value first_row = {};
};

// Variables "name/0/keys", "name/0/values", "name/1/keys", …, of all layers: [rows,context,kv_heads,head], all zeros at
// first. Errors (recorded): those of Graph::Var and DynamicSlice; layers record those of sizes that do not fit.
class AttentionCaches {
 public:
  // places: i32[b], of each text in the step, as of AttentionCache. The caller counts them.
  AttentionCaches(Graph& graph, const std::string& name, int64_t layers,
                  const AttentionCachesOptions& options, const Value& places,
                  CallSite loc = CallSite::Current());

  // What a layer attends to, and replaces: AttendTo::cache. REQUIRES: there is such a layer.
  AttentionCache& operator[](size_t layer) { return caches_[layer]; }
  std::vector<AttentionCache>& layers() { return caches_; }
  // The variables become what the layers left in the caches. Once per program, after the layers were called.
  void Update(CallSite loc = CallSite::Current()) const;

 private:
  struct Variables {
    Variable keys, values;
  };

  Value first_row_;
  std::vector<Variables> variables_;  // of each layer
  std::vector<AttentionCache> caches_;
};

}  // namespace meshwork
