// Profile: where the time of the steps went, instruction by instruction.
//
//   auto step = Executor::Create(program, backend, {.profile = true}, &state).value();
//   …steps…
//   fmt::print("{}", step->Profile().ToString());
//
//   op          where          result        calls  total ms    share  max ms          rate
//   matmul      mlp.cc:23      f32[784,700]    100   412.310   52.1 % 210.870  48.1 GFLOP/s
//   all_reduce  mlp.cc:23      f32[784,700]    100    51.772    6.5 %  27.093     31.0 GB/s
//               matmul (mlp.cc:23) leaves f32[784,700] {_,_ | sum:batch} and it is wanted as {_,_}
//   …
//   waiting     barriers                              20.141    2.5 %
//   other       start and end                          9.027    1.1 %
//   total       2 workers                            791.402  100.0 %
//   100 steps, 3.957 ms each
//
// With several domains, a line follows: "between domains: 1.210 ms a step under way, 0.115 ms of it
// waited for (90 % hidden)".
//
// If steps of a Session waited for a Pipeline, a line says so:
// "input: 37 of 100 steps waited for it, 5.210 ms each; 91.200 ms before step 17".
//
// An instruction runs once per step for all devices of the process, each worker doing its part. Its time is
// counted on every worker: *total* is the sum over the workers, *max* the time of the worker that spent most.
// The rate is the work of all workers together, divided by *max*. All times add up to the wall time of the
// steps times the number of workers.
//
// The work of a kernel is the floating-point operations that its row states for the blocks, padding included,
// or, if it states none, one per result element; the work of all other instructions is the bytes read and
// written in the memory of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwork {

struct ProfileRow {
  std::string op;  // "matmul"; "pack", "unpack", "assign", "compare" for instructions without a node
  std::string where =
      {};  // the user's line, "mlp.cc:23"; for instructions without a node, the tensor, `input "x"`
  std::string result = {};  // the whole value, "f32[784,700]", or "6 values"
  std::string cause = {};   // why the compiler put a collective there
  int64_t calls = 0;
  int64_t ns = 0;      // on all workers
  int64_t max_ns = 0;  // on the worker that spent most
  double flops = 0;    // in all calls
  int64_t bytes = 0;   // in all calls
};

// The time that steps waited for their input data before they began.
struct InputWaits {
  int64_t steps = 0;                         // that were fed
  int64_t starved = 0;                       // those of them that waited longer than kLongWait
  int64_t ns = 0;                            // the waits of these, in all
  int64_t longest_ns = 0, longest_step = 0;  // the longest wait, and before which step, from 1
  static constexpr double kLongWait = 1e-4;  // seconds
  void Add(double seconds);                  // of the next step
};

struct Profile {
  int workers = 0;
  int64_t steps = 0;
  int64_t wall_ns = 0;  // of the steps
  int64_t wait_ns = 0;  // at barriers, on all workers
  // The time in which operations across domains were under way, from their start until they were waited for; and the
  // part of it in which the domain waited. In the rest the domain computed. Operations in loops are not counted.
  int64_t remote_ns = 0, remote_wait_ns = 0;
  InputWaits input = {};         // of a Session's steps, which are not part of wall_ns
  std::vector<ProfileRow> rows;  // in program order

  // The time of all workers: wall_ns on each.
  int64_t total_ns() const { return workers * wall_ns; }
  // The time outside of instructions: from the start of the step to a worker's first instruction, and from
  // its last one to the end.
  int64_t other_ns() const;
  // One row per op, in order of first use; `where` says how many instructions, and max_ns is the sum of
  // theirs.
  Profile ByOp() const;
  // The table above, the longest rows first; if no step was profiled, one line that says so.
  std::string ToString() const;
};

}  // namespace meshwork
