// Code for each device by itself inside a global program: attention over a sharded sequence, in which blocks
// of keys and values go round a ring of devices. The result and its gradients are compared with those of the
// op Attention on whole tensors.
#include "meshwork/core.h"

namespace mw = meshwork;
using mw::UNSHARDED, mw::Value;
using Values = std::vector<Value>;

const mw::LayoutSpec kLayout = {"batch", "seq", UNSHARDED, UNSHARDED};

// q, k, v: blocks [b,s,h,d]. The softmax is over all keys, but a device sees one block of keys at a time. Its
// sums so far are scaled by exp(-most), and rescaled when a new block has a larger score.
Values Ring(mw::Graph& body, const Values& qkv) {
  const int64_t devices = body.mesh().axis(1).size;
  const Value q = qkv[0] / std::sqrt(static_cast<double>(qkv[0].shape()[3]));
  Value k = qkv[1], v = qkv[2], most, sum, out;
  for (int64_t step = 0; step < devices; ++step) {
    const Value scores = mw::Einsum("bshd,bthd->bsht", {q, k});
    const Value top = mw::ReduceMax(scores, {3}, /*keep_dims=*/true);
    const Value now = step == 0 ? top : mw::Maximum(most, top);
    const Value shares = mw::Exp(scores - now);
    const Value more = mw::ReduceSum(shares, {3}, /*keep_dims=*/true);
    const Value added = mw::Einsum("bsht,bthd->bshd", {shares, v});
    sum = step == 0 ? more : sum * mw::Exp(most - now) + more;
    out = step == 0 ? added : out * mw::Exp(most - now) + added;
    most = now;
    if (step + 1 == devices) break;
    k = mw::manual::Shift(k, 1, {"seq"});
    v = mw::manual::Shift(v, 1, {"seq"});
  }
  return {out / sum};
}

int main() {
  mw::Graph g(mw::Mesh::VirtualCpus("batch=2,seq=4").value());
  Values qkv;
  for (int64_t i = 0; i < 3; ++i)
    qkv.push_back(
        mw::RandomNormal(g, {mw::F64, {2, 32, 4, 8}}, /*seed=*/7, /*stream=*/i, /*mean=*/0, /*stddev=*/1));
  const Value ring = mw::manual::Region(g, qkv, {kLayout, kLayout, kLayout}, {kLayout}, Ring)[0];
  const Value whole = mw::Attention(qkv[0], qkv[1], qkv[2]);
  const auto compare = [&](const char* name, const Value& a, const Value& b) {
    g.Output(name, mw::ReduceMax(mw::Abs(a - b), {0, 1, 2, 3}));
  };
  compare("result", ring, whole);
  const Values by_ring = mw::Gradients(mw::ReduceSum(mw::Square(ring), {0, 1, 2, 3}), qkv);
  const Values by_op = mw::Gradients(mw::ReduceSum(mw::Square(whole), {0, 1, 2, 3}), qkv);
  compare("dq", by_ring[0], by_op[0]);
  compare("dk", by_ring[1], by_op[1]);
  compare("dv", by_ring[2], by_op[2]);
  mw::Session session = mw::Session::Create(g).value();
  fmt::print("{}", session.Explain());
  const auto run = session.Run({}).value();
  for (const char* name : {"result", "dq", "dk", "dv"})
    fmt::print("{}: by the ring and by the op differ by at most {:.1e}\n", name, run.scalar(name).value());
}
