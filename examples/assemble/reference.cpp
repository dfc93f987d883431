#include "reference.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "reads.h"

namespace quire::assemble {
namespace {

std::string Quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text)
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// Returns the output of a command. Its standard error goes to that of this program.
Result<std::string> OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return Status(Code::kUnsupported, "cannot run " + command);
  std::string output;
  char buffer[4096];
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, got);
  const int result = pclose(pipe);
  const bool exited = WIFEXITED(result);
  if (exited && WEXITSTATUS(result) == 127) {
    return Status(Code::kUnsupported, "minimap2 is not installed (package minimap2)");
  }
  if (!exited || WEXITSTATUS(result) != 0) return Status(Code::kIo, "failed: " + command);
  return output;
}

Result<uint64_t> CountBases(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<SequenceReader> reader, SequenceReader::Open(path));
  uint64_t count = 0;
  Slice sequence;
  for (;;) {
    const Status status = reader->Next(&sequence);
    if (status.code() == Code::kNotFound) return count;
    QUIRE_RETURN_IF_ERROR(status);
    count += sequence.size();
  }
}

using Intervals = std::vector<std::pair<uint64_t, uint64_t>>;

uint64_t UnionSize(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  uint64_t size = 0;
  uint64_t reached = 0;
  for (const auto& [begin, end] : intervals) {
    if (end <= reached) continue;
    size += end - std::max(begin, reached);
    reached = end;
  }
  return size;
}

}  // namespace

Result<Comparison> CompareWithReference(const std::string& contigs, const std::string& reference) {
  QUIRE_ASSIGN_OR_RETURN(const uint64_t reference_bases, CountBases(reference));
  QUIRE_ASSIGN_OR_RETURN(const std::string alignments,
                         OutputOf("minimap2 -c -x asm5 " + Quoted(reference) + " " +
                                  Quoted(contigs) + " 2>/dev/null"));
  Comparison comparison;
  std::map<std::string, Intervals> blocks;
  uint64_t matches_all = 0;
  uint64_t lengths_all = 0;
  std::istringstream lines(alignments);
  for (std::string line; std::getline(lines, line);) {
    // PAF: query name, length, begin, end; strand; reference name, length, begin, end; equal bases;
    // block length.
    std::istringstream fields(line);
    std::string query, strand, target;
    uint64_t query_length, query_begin, query_end, target_length, begin, end, matches, length;
    if (!(fields >> query >> query_length >> query_begin >> query_end >> strand >> target >>
          target_length >> begin >> end >> matches >> length)) {
      return Status(Code::kCorruption, "minimap2 said: " + line);
    }
    blocks[target].emplace_back(begin, end);
    matches_all += matches;
    lengths_all += length;
    ++comparison.block_count;
  }
  uint64_t covered = 0;
  for (const auto& [target, intervals] : blocks) covered += UnionSize(intervals);
  const auto share = [](uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  comparison.covered = share(covered, reference_bases);
  comparison.identity = share(matches_all, lengths_all);
  return comparison;
}

}  // namespace quire::assemble
