// Random global programs of all ops, for tests that hold for every program.
//
//   RandomPrograms programs;                      // reads the samples of every row
//   RandomProgram p = programs.Draw(/*seed=*/7);  // the same on every machine
//   Interpret(p.graph, p.feeds)
//
// A program applies samples of rows, in several sizes, to values of the right types: arguments, which lie
// anyhow, or what earlier nodes gave. So a new row is in these programs as soon as it has samples. Numbers
// stay comparable: an op that jumps, or wants numbers of a certain range, gets arguments, whose numbers are
// exact on every device.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/row.h"
#include "support/moves_drawer.h"
#include "support/row_loops_drawer.h"
#include "support/rows_drawer.h"
#include "support/sample.h"

namespace meshwork {

class RandomPrograms {
 public:
  RandomPrograms() {
    for (const OpRow* row : RowsUnderContract()) {
      for (std::string_view text : row->samples) {
        const Sample sample = ParseSample(*row, text).value();
        pool_.push_back(sample);
        for (int64_t size : {1, 3, 5, 7, 12})
          if (auto resized = Resized(sample, std::vector<int64_t>(sample.rule().letters.size(), size)))
            pool_.push_back(*std::move(resized));
      }
    }
  }

  RandomProgram Draw(uint64_t seed) const { return RowsDrawer(pool_, seed).Draw(); }
  // With loops and branches, whose bodies are such programs.
  RandomProgram DrawLoops(uint64_t seed) const { return RowLoopsDrawer(pool_, seed).Draw(); }
  // As DrawLoops; each loop has a twin.
  RandomProgram DrawTwins(uint64_t seed) const { return RowLoopsDrawer(pool_, seed, /*twins=*/100).Draw(); }
  // Of moves of elements, and of twins that are written differently. Every device gives the same bits.
  static RandomProgram DrawMoves(uint64_t seed) { return MovesDrawer(seed).Draw(); }

 private:
  std::vector<Sample> pool_;
};

}  // namespace meshwork
