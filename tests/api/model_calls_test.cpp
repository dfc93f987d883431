// The random models (src/*/*/random_model_test.cpp, src/api/stream_model_test.cpp) make every
// public call of databases, datasets and streams, and draw every structure of options: what a
// header has and no model names fails here. (The options of the table: the models'
// EveryOptionIsDrawn.)
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/public_calls.h"

namespace quire {
namespace {

const std::vector<std::string>& Headers() {
  static const std::vector<std::string> headers = {"database.h", "reader.h", "dataset.h",
                                                   "stream.h"};
  return headers;
}

std::string TextOf(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    const std::string part = test::SourceText(path);
    EXPECT_FALSE(part.empty()) << path;
    text += part;
  }
  return text;
}

// A model, and the names that the objects of the public classes have in it.
struct ModelSource {
  std::string text;
  std::map<std::string, std::string> objects;
};

std::vector<ModelSource> Models() {
  return {{TextOf({"src/kv/database/random_model_test.cpp",
                   "src/kv/database/random_calls_testing.cpp"}),
           {{"Context", "context_?"},
            {"Database", "db_?"},
            {"Event", "event_?"},
            {"PendingGet", "pending"},
            {"LocalIterator", "walk"},
            {"DatabaseReader", "reader|beside_"}}},
          {TextOf({"src/dataset/calls/random_model_test.cpp"}),
           {{"DatasetWriter", "writer"}, {"DatasetReader", "reader_"}, {"DatasetScan", "scan"}}},
          {TextOf({"src/api/stream_model_test.cpp"}),
           {{"StreamWriter", "writer_"}, {"StreamReader", "reader_"}, {"StreamView", "view"}}}};
}

// "Class::Function"
bool IsCalled(const std::vector<ModelSource>& models, const std::string& call) {
  const size_t colons = call.find("::");
  for (const ModelSource& model : models) {
    const auto object = model.objects.find(call.substr(0, colons));
    if (object == model.objects.end()) continue;
    const std::regex called(R"(\W\(?\*?()" + object->second + R"()\)?(\.|->))" +
                            call.substr(colons + 2) + R"(\()");
    if (std::regex_search(model.text, called)) return true;
  }
  return false;
}

TEST(ModelCalls, AreAllCallsOfTheHeaders) {
  const std::vector<ModelSource> models = Models();
  for (const std::string& header : Headers()) {
    const std::set<std::string> calls = test::CallsOf(header);
    EXPECT_GE(calls.size(), 3u) << header;
    for (const std::string& call : calls) {
      EXPECT_TRUE(IsCalled(models, call)) << call << " of " << header << ": no model calls it";
    }
  }
}

TEST(ModelCalls, DrawEveryStructureOfOptions) {
  std::string text;
  for (const ModelSource& model : Models()) text += model.text;
  static const std::regex structure(R"(\nstruct (\w+Options) \{)");
  size_t count = 0;
  for (const std::string& header : Headers()) {
    const std::string known = test::SourceText("include/quire/" + header);
    for (std::sregex_iterator at(known.begin(), known.end(), structure), end; at != end; ++at) {
      const std::string name = (*at)[1];
      EXPECT_TRUE(text.find("\n" + name + " Draw") != std::string::npos) << name;
      ++count;
    }
  }
  EXPECT_GE(count, 8u);
}

}  // namespace
}  // namespace quire
