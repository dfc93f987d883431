// The public calls as the headers have them, for tests that must know every one.
//
// Needs the definition QUIRE_SOURCE_DIR. Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_
#define QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace quire::test {

/// The text of a file of the sources; empty if there is none.
inline std::string SourceText(const std::string& path) {
  std::ifstream file(std::string(QUIRE_SOURCE_DIR) + "/" + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The virtual functions of the classes of a header of include/quire: "Class::Function".
inline std::set<std::string> CallsOf(const std::string& header) {
  static const std::regex of_interest(R"(\nclass (\w+)|\n  virtual [^~;()]*?(\w+)\()");
  const std::string text = SourceText("include/quire/" + header);
  std::set<std::string> calls;
  std::string of_class;
  for (std::sregex_iterator at(text.begin(), text.end(), of_interest), end; at != end; ++at) {
    if ((*at)[1].matched) {
      of_class = (*at)[1];
    } else {
      calls.insert(of_class + "::" + (*at)[2].str());
    }
  }
  return calls;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_
