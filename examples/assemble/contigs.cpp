#include "contigs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "walk.h"

namespace quire::assemble {
namespace {

constexpr size_t kLineBases = 80;

std::string ReverseComplement(const std::string& bases) {
  std::string result(bases.rbegin(), bases.rend());
  for (char& base : result) base = BaseLetter(3u - BaseCode(base));
  return result;
}

// No k-mer stands in two contigs, so their first k bases differ: length and these are a name.
std::string ContigKey(const std::string& bases) {
  std::string key;
  const uint64_t turned = ~static_cast<uint64_t>(bases.size());
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>((turned >> shift) & 0xff);
  return key + bases.substr(0, kKmerBasesMax);
}

// The last k-mer of `bases`.
Kmer LastKmer(const KmerShape& shape, const std::string& bases) {
  Kmer kmer = 0;
  for (size_t i = bases.size() - static_cast<size_t>(shape.k()); i < bases.size(); ++i) {
    kmer = shape.Append(kmer, BaseCode(bases[i]));
  }
  return kmer;
}

Status Damaged(const std::string& what) {
  return Status(Code::kCorruption, "segments: " + what);
}

// Follows the segments from `value`, the first, to the end of the path.
Status Join(Database& segments, const KmerShape& shape, std::string value, std::string* bases) {
  for (;;) {
    if (value.empty()) return Damaged("one is empty");
    bases->append(value, 1, std::string::npos);
    if (value[0] == kPathEnd) return Status();
    const std::string next = SegmentKey(kMilestone, shape, LastKmer(shape, *bases));
    const Status status = segments.Get(next, &value);
    if (status.code() == Code::kNotFound) return Damaged("one is missing");
    QUIRE_RETURN_IF_ERROR(status);
  }
}

}  // namespace

Status ContigStore::Add(std::string bases) {
  bases = std::min(bases, ReverseComplement(bases));
  Kmer kmer = 0;
  const auto k = static_cast<size_t>(graph_.shape().k());
  for (size_t i = 0; i < bases.size(); ++i) {
    kmer = graph_.shape().Append(kmer, BaseCode(bases[i]));
    if (i + 1 >= k) QUIRE_RETURN_IF_ERROR(graph_.Mark(kmer));
  }
  return contigs_.Put(ContigKey(bases), bases);
}

Status JoinSegments(Database& segments, const KmerShape& shape, ContigStore* store) {
  const std::unique_ptr<LocalIterator> iterator = segments.NewLocalIterator();
  for (iterator->Seek(Slice(&kPathEnd, 1)); iterator->Valid(); iterator->Next()) {
    const Slice key = iterator->key();
    if (key[0] != kPathEnd) break;
    const Kmer first = KmerShape::FromKey(key.substr(1));
    std::string bases = shape.Text(first);
    QUIRE_RETURN_IF_ERROR(Join(segments, shape, std::string(iterator->value()), &bases));
    QUIRE_RETURN_IF_ERROR(iterator->status());
    if (first > shape.ReverseComplement(LastKmer(shape, bases))) continue;
    QUIRE_RETURN_IF_ERROR(store->Add(std::move(bases)));
  }
  return iterator->status();
}

Result<Check> CheckMarks(Graph& graph) {
  Check check;
  QUIRE_RETURN_IF_ERROR(graph.ForEachOwned([&](const Node&, unsigned mark_count) {
    ++check.kmer_count;
    if (mark_count == 0) ++check.unmarked_count;
    if (mark_count > 1) ++check.repeated_count;
    return Status();
  }));
  return check;
}

Result<Assembly> WriteFasta(Database& contigs, const std::string& path) {
  const auto failure = [&] {
    return Status(Code::kIo, "cannot write " + path + ": " + std::strerror(errno));
  };
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return failure();
  Assembly assembly;
  std::vector<uint64_t> lengths;
  const std::unique_ptr<LocalIterator> iterator = contigs.NewLocalIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const Slice bases = iterator->value();
    QUIRE_RETURN_IF_ERROR(iterator->status());
    lengths.push_back(bases.size());
    assembly.base_count += bases.size();
    file << ">contig_" << lengths.size() << " length=" << bases.size() << '\n';
    for (size_t at = 0; at < bases.size(); at += kLineBases)
      file << bases.substr(at, kLineBases) << '\n';
  }
  QUIRE_RETURN_IF_ERROR(iterator->status());
  file.close();
  if (!file) return failure();
  assembly.contig_count = lengths.size();
  assembly.longest = lengths.empty() ? 0 : lengths.front();
  uint64_t sum = 0;
  for (const uint64_t length : lengths) {
    sum += length;
    assembly.n50 = length;
    if (2 * sum >= assembly.base_count) break;
  }
  return assembly;
}

}  // namespace quire::assemble
