#include "meshwork/base/json.h"

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/layout/json.h"
#include "meshwork/mesh/json.h"
#include "meshwork/mesh/topology.h"
#include "nlohmann/json.hpp"

namespace meshwork::json_test {
namespace {

using Json = nlohmann::json;

TEST(JsonErrors, Values) {
  const Json json = Json::parse(R"({"a": [[1.5], {"b": null}], "n": 9223372036854775808})");
  const JsonReader document(json, "test");
  const std::vector<JsonReader> items = document.Get("a")->Items().value();
  auto whole = [](const Json& value) { return JsonReader(value, "test").Integer(); };
  ExpectErrors(
      "json",
      {
          MISTAKE((*items[0].Items())[0].Integer()),
          MISTAKE(items[1].Get("b")->String()),
          MISTAKE(items[1].Get("c")),
          MISTAKE(items[0].Get("c")),
          MISTAKE(items[1].Items()),
          MISTAKE(items[0].Strings()),
          MISTAKE(document.Get("n")->Integer()),
          MISTAKE(items[1].ExpectKeys({"bee", "be"})),
          MISTAKE(items[1].ExpectKeys({"bytes"})),
          MISTAKE(items[0].ExpectKeys({"b"})),
          MISTAKE(whole("some text that is shorter than what there is room for")),
          MISTAKE(whole("a text of which the beginning is shown, cut before the ä and not within it")),
          MISTAKE(whole("\xff")),
          {"a long list", [&] { return whole(Json(std::vector<int>(1000000, 7))); }},
          {"a deep list",
           [&] { return whole(Json::parse(std::string(1000000, '[') + std::string(1000000, ']'))); }},
          MISTAKE(whole({{"key", {1, 2}}, {"other", {{"n", nullptr}, {"x", 0.5}}}, {"third", {true, "x"}}})),
      });
}

TEST(JsonErrors, Topologies) {
  const Mesh mesh = Mesh::Parse("host=4,device=8").value();
  const std::string host = R"("host": {"bandwidth": 1e9, "latency": 0})",
                    device = R"("device": {"bandwidth": 1e9, "latency": 0})";
  std::vector<Mistake> mistakes;
  for (const std::string& json :
       {std::string("{"),
        std::string("[]"),
        std::string("{}"),
        std::string(R"({"axes": [], "flops": 1})"),
        std::string(R"({"axis": {}})"),
        "{\"axes\": {" + host + "}}",
        "{\"axes\": {" + host + ", " + device + ", \"hosts\": {\"bandwidth\": 1, \"latency\": 1}}}",
        "{\"axes\": {" + host + ", " + device + ", \"host:(2)2\": {\"bandwidth\": 1, \"latency\": 1}}}",
        "{\"axes\": {" + host + ", " + host + "}}",
        "{\"axes\": {" + host + ", \"device:(3)2\": {\"bandwidth\": 1, \"latency\": 1}}}",
        "{\"axes\": {" + host + ", \"device:(4)2\": {\"bandwidth\": 1, \"latency\": 1}}}",
        "{\"axes\": {" + host + ", " + device + "}, \"flops\": 0}",
        "{\"axes\": {" + host + ", " + device + "}, \"flops\": \"1e12\"}",
        "{\"axes\": {" + host + ", " + device + "}, \"flops\": 1e999}",
        std::string(R"({"axes": {"host": {"bandwidth": 0, "latency": 0}}})"),
        std::string(R"({"axes": {"host": {"bandwidth": -1e9, "latency": 0}}})"),
        std::string(R"({"axes": {"host": {"bandwidth": 1e9, "latency": -1}}})"),
        std::string(R"({"axes": {"host": {"bandwidth": 1e9}}})"),
        std::string(R"({"axes": {"host": {"bandwidth": "1 GB/s", "latency": 0}}})"),
        std::string(R"({"axes": {"host": {"bandwidth": 1e9, "latency": 0, "mtu": 9000}}})")})
    mistakes.push_back({json, [=] { return Topology::Parse(mesh, json); }});
  ExpectErrors("topology", mistakes);
}

TEST(JsonErrors, Meshes) {
  std::vector<Mistake> mistakes;
  for (std::string json : {R"([])",
                           R"({})",
                           R"({"axis": []})",
                           R"({"axes": {}})",
                           R"({"axes": [{"name": "a", "size": 2}, 3]})",
                           R"({"axes": [{"name": "a"}]})",
                           R"({"axes": [{"size": 3}]})",
                           R"({"axes": [{"name": "a", "size": 2, "devices": 2}]})",
                           R"({"axes": [{"name": "a", "sise": 2}]})",
                           R"({"axes": [{"name": 7, "size": 2}]})",
                           R"({"axes": [{"name": "a", "size": "2"}]})",
                           R"({"axes": [{"name": "a", "size": 2.5}]})",
                           R"({"axes": [{"name": "a", "size": 9223372036854775808}]})",
                           R"({"axes": [{"name": "a", "size": [4]}]})",
                           R"({"axes": [{"name": "a", "size": [4, 1]}]})",
                           R"({"axes": [{"name": "a", "size": [4, true]}]})",
                           R"({"axes": [{"name": "a", "size": [4294967296, 4294967296]}]})",
                           R"({"axes": [{"name": "a", "size": 0}]})",
                           R"({"axes": [{"name": "", "size": 2}]})",
                           R"({"axes": [{"name": "a", "size": 2}, {"name": "a", "size": 2}]})"})
    mistakes.push_back({json, [=] { return MeshFromJson(Json::parse(json)); }});
  ExpectErrors("mesh_json", mistakes);
}

TEST(JsonErrors, Layouts) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4").value();
  std::vector<Mistake> mistakes;
  for (std::string json :
       {R"("{batch}")", R"({})", R"({"dims": [], "partials": {}})", R"({"dims": [], "mesh": "a=2"})",
        R"({"dims": "batch"})", R"({"dims": [[], "batch"]})", R"({"dims": [null]})",
        R"({"dims": [["batch", 2]]})", R"({"dims": [["batch", {"size": 2}]]})",
        R"({"dims": [[{"size": 2}, "batch"]]})", R"({"dims": [[{"size": 2}, {"axes": []}]]})",
        R"({"dims": [[{"size": 2}, {"size": 2, "axis": []}]]})",
        R"({"dims": [[{"size": 2.0}, {"size": 2}]]})", R"({"dims": [[{"size": 2, "axes": "batch"}]]})",
        R"({"dims": [[]], "partial": ["model"]})", R"({"dims": [[]], "partial": {"axes": ["model"]}})",
        R"({"dims": [[]], "partial": {"op": "sum"}})",
        R"({"dims": [[]], "partial": {"op": "smu", "axes": ["model"]}})",
        R"({"dims": [[]], "partial": {"op": "mean", "axes": ["model"]}})",
        R"({"dims": [[]], "partial": {"op": "sum", "axes": []}})",
        // What the text form finds wrong, too.
        R"({"dims": [["batch"], ["modle"]]})",
        R"({"dims": [["batch"]], "partial": {"op": "max", "axes": ["batch"]}})",
        R"({"dims": [[{"size": 8, "axes": ["batch"]}]]})",
        R"({"dims": [[{"size": 0, "axes": ["batch"]}, {"size": 2}]]})", R"({"dims": [["model:(3)2"]]})",
        R"({"dims": [["batch"], "?"]})"})
    mistakes.push_back({json, [=] { return LayoutFromJson(mesh, Json::parse(json)); }});
  ExpectErrors("layout_json", mistakes);
}

}  // namespace
}  // namespace meshwork::json_test
