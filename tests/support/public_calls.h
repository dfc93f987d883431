// The public calls as the headers have them, for tests that must know every one.
//
// Needs the definition QUIRE_SOURCE_DIR. Threads: any.
#ifndef QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_
#define QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_

#include <filesystem>
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

/// The functions of a header of include/quire that `of_interest` finds. Its groups: the name of a
/// class; of a function of that class, "Class::Function"; of a function of no class, if it has one.
inline std::set<std::string> FunctionsOf(const std::string& header, const std::regex& of_interest) {
  const std::string text = SourceText("include/quire/" + header);
  std::set<std::string> calls;
  std::string of_class;
  for (std::sregex_iterator at(text.begin(), text.end(), of_interest), end; at != end; ++at) {
    if ((*at)[1].matched) {
      of_class = (*at)[1];
    } else {
      calls.insert((*at)[2].matched ? of_class + "::" + (*at)[2].str() : (*at)[3].str());
    }
  }
  return calls;
}

/// The virtual functions of the classes of a header of include/quire: "Class::Function".
inline std::set<std::string> CallsOf(const std::string& header) {
  static const std::regex of_interest(R"(\nclass (\w+)|\n  virtual [^~;()]*?(\w+)\()");
  return FunctionsOf(header, of_interest);
}

/// The static functions of the classes of a header of include/quire, "Class::Function", and its
/// functions of no class.
inline std::set<std::string> FreeCallsOf(const std::string& header) {
  static const std::regex of_interest(R"(\nclass (?:QUIRE_EXPORT )?(\w+))"
                                      R"(|\n  static [^;(){}]*?[ &*](\w+)\()"
                                      R"(|\n[A-Za-z][^\n;(){}]*[ &*](\w+)\()");
  return FunctionsOf(header, of_interest);
}

/// The functions of a header of C that return a code.
inline std::set<std::string> CCallsOf(const std::string& header) {
  static const std::regex call(R"(\n(?:QUIRE_EXPORT|static inline) int (\w+)\()");
  const std::string text = SourceText("include/quire/" + header);
  std::set<std::string> calls;
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
    calls.insert((*at)[1]);
  }
  return calls;
}

/// The names of the headers of include/quire.
inline std::set<std::string> PublicHeaders() {
  std::set<std::string> names;
  const std::string directory = std::string(QUIRE_SOURCE_DIR) + "/include/quire";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

}  // namespace quire::test

#endif  // QUIRE_TESTS_SUPPORT_PUBLIC_CALLS_H_
