#include "dump.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

namespace quire::lammps {
namespace {

// The lines before the atoms; "" is a line with any content.
constexpr int kStepLine = 2;
constexpr int kCountLine = 4;
constexpr int kColumnsLine = 9;
constexpr const char* kHeader[] = {"ITEM: TIMESTEP",
                                   "",  // the step
                                   "ITEM: NUMBER OF ATOMS",
                                   "",  // their count in this file
                                   "ITEM: BOX BOUNDS pp pp pp",
                                   "",
                                   "",
                                   "",
                                   "ITEM: ATOMS id x y z vx vy vz"};

Status Wrong(const std::string& name, uint64_t line, const std::string& what) {
  return Status(Code::kCorruption, name + ", line " + std::to_string(line) + ": " + what);
}

Result<uint64_t> NumberOf(const std::string& text, const std::string& name, uint64_t line) {
  if (!text.empty() && text.size() <= 18 &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::stoull(text);
  }
  return Wrong(name, line, "\"" + text + "\" is not a number");
}

// Reads all lines before the atoms; gives how many there are.
Result<uint64_t> ReadHeader(std::istream& file, const std::string& name, uint64_t step) {
  uint64_t count = 0;
  for (int line = 1; line <= kColumnsLine; ++line) {
    const std::string expected = kHeader[line - 1];
    const auto number = static_cast<uint64_t>(line);
    std::string text;
    if (!std::getline(file, text)) return Wrong(name, number, "the file ends here");
    // LAMMPS ends this one with a space.
    while (!text.empty() && text.back() == ' ') text.pop_back();
    if (!expected.empty() && text != expected) {
      return Wrong(name, number, "\"" + text + "\", not \"" + expected + "\"");
    }
    if (line == kCountLine) {
      QUIRE_ASSIGN_OR_RETURN(count, NumberOf(text, name, number));
    }
    if (line != kStepLine) continue;
    QUIRE_ASSIGN_OR_RETURN(const uint64_t found, NumberOf(text, name, number));
    if (found != step) return Wrong(name, number, "it is of step " + text);
  }
  return count;
}

bool ParseAtom(const std::string& line, particles::Particle* atom) {
  std::istringstream fields(line);
  std::string more;
  fields >> atom->id;
  for (double& number : atom->position) fields >> number;
  for (double& number : atom->velocity) fields >> number;
  return fields && !(fields >> more);
}

}  // namespace

std::string DumpPath(const std::string& folder, int rank, uint64_t step) {
  return folder + "/melt." + std::to_string(rank) + "." + std::to_string(step) + ".dump";
}

Result<std::vector<uint64_t>> StepsIn(const std::string& folder) {
  static const std::regex kOfRank0("melt\\.0\\.([0-9]{1,18})\\.dump");
  std::vector<uint64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (std::regex_match(name, match, kOfRank0)) steps.push_back(std::stoull(match[1]));
  }
  if (error) return Status(Code::kIo, folder + ": " + error.message());
  if (steps.empty()) return Status(Code::kNotFound, folder + ": no file melt.0.<step>.dump");
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::vector<particles::Particle>> ReadAtoms(std::istream& file, const std::string& name,
                                                   uint64_t step) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t count, ReadHeader(file, name, step));
  std::vector<particles::Particle> atoms;
  std::string line;
  for (uint64_t i = 0; i < count; ++i) {
    particles::Particle atom;
    if (!std::getline(file, line) || !ParseAtom(line, &atom)) {
      return Wrong(name, kColumnsLine + 1 + i, "not an id and six numbers");
    }
    atoms.push_back(atom);
  }
  if (std::getline(file, line)) {
    return Wrong(name, kColumnsLine + 1 + count, "more than the atoms it counts");
  }
  return atoms;
}

}  // namespace quire::lammps
