#include "graph.h"

#include <memory>
#include <string>

namespace quire::assemble {
namespace {

constexpr uint32_t kMark = 1;
constexpr size_t kRecordBytes = 2;

// Maps bit b to bit 3 - b: the bases as the other strand reads them.
uint8_t Complement(unsigned bases) {
  unsigned result = 0;
  for (unsigned base = 0; base < 4; ++base) result |= ((bases >> base) & 1u) << (3 - base);
  return static_cast<uint8_t>(result);
}

// A k-mer that is not in the graph is stored as well: the check at the end finds it.
Status AddMark(Slice, const Slice* present, Slice, std::string* updated) {
  *updated = present != nullptr ? std::string(*present) : std::string(kRecordBytes, '\0');
  if (updated->size() != kRecordBytes)
    return Status(Code::kCorruption, "a node of the graph has a wrong size");
  if ((*updated)[1] != '\xff') ++(*updated)[1];
  return Status();
}

}  // namespace

Status Graph::RegisterUpdates() {
  return database_.RegisterUpdate(kMark, AddMark);
}

Status Graph::Put(Kmer kmer, const KmerCounts& counts, unsigned count_min) {
  unsigned left = 0;
  unsigned right = 0;
  for (size_t base = 0; base < 4; ++base) {
    left |= static_cast<unsigned>(counts.beside[base] >= count_min) << base;
    right |= static_cast<unsigned>(counts.beside[4 + base] >= count_min) << base;
  }
  // The two sides of a palindrome are one, seen from both strands.
  if (IsPalindrome(kmer)) left = 0;
  const char record[kRecordBytes] = {static_cast<char>(left | right << 4), 0};
  return database_.Put(shape_.Key(kmer), {record, kRecordBytes});
}

Result<Node> Graph::Decode(Kmer kmer, Slice record) const {
  if (record.size() != kRecordBytes) {
    return Status(Code::kCorruption, "k-mer " + shape_.Text(kmer) + ": its node has a wrong size");
  }
  const auto bases = static_cast<unsigned char>(record[0]);
  const Node canonical{shape_.Canonical(kmer), static_cast<uint8_t>(bases & 15),
                       static_cast<uint8_t>(bases >> 4)};
  return canonical.kmer == kmer ? canonical : Reverse(canonical);
}

Node Graph::Reverse(const Node& node) const {
  return {shape_.ReverseComplement(node.kmer), Complement(node.behind), Complement(node.before)};
}

Status Graph::Get(const std::vector<Kmer>& kmers, std::vector<Node>* nodes) {
  std::vector<KmerKey> keys;
  keys.reserve(kmers.size());
  for (const Kmer kmer : kmers) keys.push_back(shape_.Key(shape_.Canonical(kmer)));
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<std::string> values;
  std::vector<bool> found;
  QUIRE_RETURN_IF_ERROR(database_.GetMany(slices, &values, &found));
  nodes->clear();
  for (size_t i = 0; i < kmers.size(); ++i) {
    if (!found[i]) {
      return Status(Code::kCorruption,
                    "k-mer " + shape_.Text(kmers[i]) + " has an edge but no node");
    }
    QUIRE_ASSIGN_OR_RETURN(const Node node, Decode(kmers[i], values[i]));
    nodes->push_back(node);
  }
  return Status();
}

Status Graph::ForEachOwned(const std::function<Status(const Node&, unsigned)>& visit) {
  const std::unique_ptr<LocalIterator> iterator = database_.NewLocalIterator();
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const Slice record = iterator->value();
    QUIRE_RETURN_IF_ERROR(iterator->status());
    QUIRE_ASSIGN_OR_RETURN(const Node node, Decode(KmerShape::FromKey(iterator->key()), record));
    QUIRE_RETURN_IF_ERROR(visit(node, static_cast<unsigned char>(record[1])));
  }
  return iterator->status();
}

Status Graph::Mark(Kmer kmer) {
  return database_.Update(shape_.Key(shape_.Canonical(kmer)), kMark, {});
}

bool Graph::IsLink(const Node& from, const Node& to) const {
  return !from.EndsBehind() && !to.EndsBefore() && to.kmer != shape_.ReverseComplement(from.kmer) &&
         !IsPalindrome(from.kmer) && !IsPalindrome(to.kmer);
}

}  // namespace quire::assemble
