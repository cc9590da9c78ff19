// parameter_server: pulls and pushes of a large value between two processes of this host, compared with a gRPC stream
// that carries the same bytes and does nothing else. See --help.
//
// Exit code 2: the input is wrong; 1: something failed.
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/ops.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/optim/optimizers.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/served_session.h"
#include "meshwork/train/parameter_server/shard_store.h"
#include "meshwork/train/parameter_server/split.h"

namespace meshwork {
namespace {

struct Options {
  int64_t mebibytes = 64, rounds = 15, table_rows = 1000000;
  std::string json;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "parameter_server",
      "Pulls and pushes one dense f32 value between two processes of this host, through a StoreServer whose\n"
      "store gives and takes it and does nothing else; by turns with a bidirectional stream of gRPC that\n"
      "carries the same bytes in chunks of 1 MiB, unread. Prints the median of each and the ratio. Then trains\n"
      "a table of embeddings, 64 numbers wide, by batches that name 1 % of its rows, and prints what crosses.");
  flags.Int("mebibytes", "of the value", &o.mebibytes, 1, 1 << 14);
  flags.Int("rounds", "of all four, and steps of the table", &o.rounds, 1, 1 << 20);
  flags.Int("table-rows", "of the table, at least 100; 0: no table", &o.table_rows, 0, int64_t{1} << 30);
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  if (o.table_rows > 0 && o.table_rows < 100)
    return InvalidArgument("--table-rows: {} is neither 0 nor at least 100", o.table_rows);
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

// A store of one value that does no arithmetic.
class OneValue : public ParameterStore {
 public:
  explicit OneValue(Tensor value) : value_(std::move(value)) {}
  absl::StatusOr<Pulled> Pull(const PullRequest&) override { return Pulled{.values = {value_}}; }
  absl::StatusOr<Pushed> Push(const PushRequest&) override { return Pushed(); }
  absl::StatusOr<SequenceSet> TakenFrom(const std::string&) override { return SequenceSet(); }
  absl::StatusOr<int64_t> Save() override { return 0; }
  void Stop() override {}

 private:
  const Tensor value_;
};

// ---- The bare stream.

using grpc::ByteBuffer;
constexpr const char* kBare = "/bare/Exchange";
constexpr size_t kChunk = size_t{1} << 20;

void KeepBuffer(void*) {}

// Writes the buffer in chunks.
template <typename Stream>
void WriteBytes(Stream& stream, const std::vector<char>& bytes) {
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    const grpc::Slice slice(const_cast<char*>(bytes.data()) + at, std::min(kChunk, bytes.size() - at),
                            KeepBuffer, nullptr);
    stream.Write(ByteBuffer(&slice, 1));
  }
}
template <typename Stream>
int64_t ReadBytes(Stream& stream) {
  int64_t bytes = 0;
  for (ByteBuffer chunk; stream.Read(&chunk);) bytes += static_cast<int64_t>(chunk.Length());
  return bytes;
}

// Reads everything. If the request is short, answers with as many bytes as a pull.
class BareService : public grpc::Service {
 public:
  explicit BareService(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    using Stream = grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>;
    AddMethod(new grpc::internal::RpcServiceMethod(
        kBare, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<BareService, ByteBuffer, ByteBuffer>(
            [](BareService* service, grpc::ServerContext*, Stream* stream) {
              if (ReadBytes(*stream) < std::ssize(service->bytes_)) WriteBytes(*stream, service->bytes_);
              return grpc::Status::OK;
            },
            this)));
  }

 private:
  const std::vector<char> bytes_;
};

class BareClient {
 public:
  BareClient(int port, int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(fmt::format("ipv4:127.0.0.1:{}", port),
                                         grpc::InsecureChannelCredentials(), arguments);
  }
  // Sends or receives the bytes.
  absl::Status Exchange(bool push) {
    grpc::ClientContext context;
    const std::unique_ptr<grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>> stream(
        grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
            channel_.get(),
            grpc::internal::RpcMethod(kBare, grpc::internal::RpcMethod::BIDI_STREAMING, channel_), &context));
    if (push) WriteBytes(*stream, bytes_);
    stream->WritesDone();
    const int64_t read = ReadBytes(*stream);
    if (const grpc::Status status = stream->Finish(); !status.ok())
      return absl::InternalError(status.error_message());
    return read == (push ? 0 : std::ssize(bytes_)) ? absl::OkStatus()
                                                   : absl::InternalError("the stream ended early");
  }

 private:
  const std::vector<char> bytes_;
  std::shared_ptr<grpc::Channel> channel_;
};

// ---- The table.

constexpr int64_t kWidth = 64;
int64_t NamedRows(const Options& o) { return std::max<int64_t>(o.table_rows / 100, 1); }

absl::StatusOr<TrainingSplit> SplitTable(const Options& o) {
  Graph g(Mesh::VirtualCpus("device=1").value());
  const Value ids = g.Input("ids", I32, {NamedRows(o)});
  const Variable table = g.Var("table", UniformRandom({o.table_rows, kWidth}, -0.1, 0.1));
  const Value loss = ReduceMean(Square(Gather(table, ids, 0) - 1.0));
  g.Output("loss", loss);
  Adagrad({.learning_rate = 0.1}).Minimize(loss);
  return SplitTraining(g);
}

// ---- Two processes.

Tensor ValueOf(const Options& o) { return Tensor::Full({F32, {o.mebibytes << 8, int64_t{1} << 10}}, 1); }

// Serves both services, writes their ports, and waits to be killed.
[[noreturn]] void Serve(const Options& o, int ports_fd) {
  const auto server = StoreServer::Start(std::make_shared<OneValue>(ValueOf(o)), "127.0.0.1:0", {});
  std::unique_ptr<StoreServer> table;
  if (o.table_rows > 0) {
    const TrainingSplit split = SplitTable(o).value();
    std::shared_ptr<ParameterStore> store = ShardStore::Create(split, {}).value();
    table = StoreServer::Start(std::move(store), "127.0.0.1:0", {}).value();
  }
  BareService service(o.mebibytes << 20);
  int ports[3] = {server.ok() ? (*server)->port() : 0, 0, table == nullptr ? 0 : table->port()};
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &ports[1]);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> bare = builder.BuildAndStart();
  if (write(ports_fd, ports, sizeof(ports)) != sizeof(ports)) _exit(1);
  while (true) pause();
}

struct Servers {
  pid_t process = -1;
  int store_port = 0, bare_port = 0, table_port = 0;
  ~Servers() {
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
};

absl::Status StartServers(const Options& o, Servers& servers) {
  int ends[2], ports[3] = {0, 0, 0};
  if (pipe(ends) != 0) return absl::InternalError("there is no pipe");
  servers.process = fork();
  if (servers.process == 0) Serve(o, ends[1]);
  close(ends[1]);
  const bool is_whole = read(ends[0], ports, sizeof(ports)) == sizeof(ports);
  close(ends[0]);
  if (!is_whole || ports[0] == 0 || ports[1] == 0) return absl::InternalError("the servers did not start");
  servers.store_port = ports[0];
  servers.bare_port = ports[1];
  servers.table_port = ports[2];
  return absl::OkStatus();
}

absl::Status TrainTable(const Options& o, int port, nlohmann::ordered_json& json) {
  MESHWORK_ASSIGN_OR_RETURN(const TrainingSplit split, SplitTable(o));
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<ParameterStore> store,
                            RemoteStore::Connect(fmt::format("127.0.0.1:{}", port), {}));
  MESHWORK_ASSIGN_OR_RETURN(ServedSession session, ServedSession::Create(split, {std::move(store)}));
  std::vector<double> seconds;
  ServedTraffic before;
  for (int64_t step = 0; step <= o.rounds; ++step) {
    Tensor ids(Type{I32, {NamedRows(o)}});
    int64_t id = step;
    for (int32_t& one : ids.mutable_values<int32_t>())
      one = static_cast<int32_t>(id % o.table_rows), id += 99;
    absl::Status status;
    const double took = Seconds([&] { status = session.Run({{"ids", ids}}).status(); });
    MESHWORK_RETURN_IF_ERROR(status);
    if (step > 0) seconds.push_back(took);
    else before = session.traffic();
  }
  const auto steps = static_cast<double>(o.rounds);
  const double rows = static_cast<double>(NamedRows(o) * kWidth) * 4;
  const double pulled = static_cast<double>(session.traffic().pulled - before.pulled) / steps / rows;
  const double pushed = static_cast<double>(session.traffic().pushed - before.pushed) / steps / rows;
  fmt::print(
      "table of {} rows, {} per step: {:.1f} ms; pulled {:.2f}, pushed {:.2f} times the bytes of these rows\n",
      o.table_rows, NamedRows(o), 1e3 * Median(seconds), pulled, pushed);
  json["table"] = {
      {"rows", o.table_rows}, {"ms", 1e3 * Median(seconds)}, {"pulled", pulled}, {"pushed", pushed}};
  return absl::OkStatus();
}

absl::Status Run(const Options& o) {
  Servers servers;
  MESHWORK_RETURN_IF_ERROR(StartServers(o, servers));
  BareClient bare(servers.bare_port, o.mebibytes << 20);
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteStore> store,
                            RemoteStore::Connect(fmt::format("127.0.0.1:{}", servers.store_port), {}));
  const Tensor gradient = ValueOf(o);
  int64_t sequence = 0;
  const std::pair<const char*, std::function<absl::Status()>> kinds[] = {
      {"bare pull", [&] { return bare.Exchange(/*push=*/false); }},
      {"pull", [&] { return store->Pull({.pieces = {{"value"}}}).status(); }},
      {"bare push", [&] { return bare.Exchange(/*push=*/true); }},
      {"push",
       [&] {
         return store->Push({.pusher = "p", .sequence = ++sequence, .gradients = {{{"value"}, gradient}}})
             .status();
       }},
  };
  std::vector<double> seconds[4];
  for (int64_t round = 0; round <= o.rounds; ++round)
    for (size_t kind = 0; kind < 4; ++kind) {
      absl::Status status;
      const double took = Seconds([&] { status = kinds[kind].second(); });
      MESHWORK_RETURN_IF_ERROR(status);
      if (round > 0) seconds[kind].push_back(took);  // the first one warms up
    }
  nlohmann::ordered_json json = {{"cpu", CpuName()}, {"mebibytes", o.mebibytes}, {"rounds", o.rounds}};
  double rates[4];
  for (size_t kind = 0; kind < 4; ++kind) {
    rates[kind] = static_cast<double>(o.mebibytes << 20) / Median(seconds[kind]) / 1e9;
    fmt::print("{:<10} {:.2f} GB/s\n", kinds[kind].first, rates[kind]);
    json[kinds[kind].first] = rates[kind];
  }
  fmt::print("of the bare stream: pull {:.0f} %, push {:.0f} %\n", 100 * rates[1] / rates[0],
             100 * rates[3] / rates[2]);
  if (o.table_rows > 0) MESHWORK_RETURN_IF_ERROR(TrainTable(o, servers.table_port, json));
  if (o.json.empty()) return absl::OkStatus();
  return WriteFileAtomically(o.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("parameter_server", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
