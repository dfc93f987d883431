#include "kmer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "counting.h"

namespace quire::assemble {
namespace {

std::string Reversed(std::string bases) {
  std::reverse(bases.begin(), bases.end());
  for (char& base : bases) base = BaseLetter(3u - BaseCode(base));
  return bases;
}

// The canonical k-mers of `sequence`, found in text.
std::vector<std::string> KmersInText(const std::string& sequence, size_t k) {
  std::vector<std::string> kmers;
  for (size_t i = 0; i + k <= sequence.size(); ++i) {
    const std::string word = sequence.substr(i, k);
    if (word.find_first_not_of("ACGT") != std::string::npos) continue;
    kmers.push_back(std::min(word, Reversed(word)));
    if (word == Reversed(word)) kmers.push_back(word);
  }
  return kmers;
}

const std::string kSequence =
    "ACGTNGGATTACAGATTACACCTTAAGGCATGCATGCCGTANNACGTACGTAGCTTGACCATGACCATGGTCATTTTTTTTTTTTTTTTTTTTT"
    "TTTTTTTTTTTTT"
    "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTACGATCGATCGGCTAGCTAGCTTTCGCGGGATATCGAAA";

TEST(Kmer, IsCanonicalAsTextIs) {
  for (int k = 1; k <= kKmerBasesMax; ++k) {
    const KmerShape shape(k);
    std::vector<std::string> kmers;
    ForEachKmer(shape, kSequence,
                [&](const KmerInRead& found) { kmers.push_back(shape.Text(found.kmer)); });
    EXPECT_EQ(kmers, KmersInText(kSequence, static_cast<size_t>(k))) << "k " << k;
  }
}

TEST(Kmer, ComesBackFromItsKey) {
  for (int k = 1; k <= kKmerBasesMax; ++k) {
    const KmerShape shape(k);
    ForEachKmer(shape, kSequence, [&](const KmerInRead& found) {
      const KmerKey key = shape.Key(found.kmer);
      EXPECT_EQ(key.slice().size(), shape.key_bytes());
      EXPECT_TRUE(KmerShape::FromKey(key) == found.kmer) << "k " << k;
    });
  }
}

TEST(Kmer, KnowsItsOtherStrand) {
  const KmerShape shape(5);
  Kmer kmer = 0;
  for (const char base : std::string("GATTC")) kmer = shape.Append(kmer, BaseCode(base));
  EXPECT_EQ(shape.Text(shape.ReverseComplement(kmer)), "GAATC");
  EXPECT_EQ(shape.Text(shape.Canonical(kmer)), "GAATC");
  EXPECT_EQ(shape.Text(shape.Prepend(kmer, BaseCode('C'))), "CGATT");
  EXPECT_EQ(shape.FirstBase(kmer), BaseCode('G'));
}

TEST(KmerCounts, ContainTheBasesBesideAKmer) {
  const KmerShape shape(3);
  std::vector<KmerInRead> found;
  // ACC is canonical; GGT is read as ACC from the other strand.
  ForEachKmer(shape, "TACCGNGGTA", [&](const KmerInRead& kmer) {
    if (shape.Text(kmer.kmer) == "ACC") found.push_back(kmer);
  });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].left, BaseCode('T'));
  EXPECT_EQ(found[0].right, BaseCode('G'));
  EXPECT_EQ(found[1].left, BaseCode('T'));
  EXPECT_EQ(found[1].right, kNoBase);
}

TEST(KmerCounts, AddUpAndStopAtTheirLargest) {
  KmerCounts some;
  for (int i = 0; i < 200; ++i) some.Add(0, 3);
  std::string updated;
  char bytes[KmerCounts::kBytes];
  some.Encode(bytes);
  const Slice argument(bytes, sizeof bytes);
  ASSERT_TRUE(AddCounts("k", nullptr, argument, &updated).ok());
  const std::string once = updated;
  const Slice present = once;
  ASSERT_TRUE(AddCounts("k", &present, argument, &updated).ok());
  const Result<KmerCounts> sum = KmerCounts::Decode(updated);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(sum->count, 400u);
  EXPECT_EQ(sum->beside, (std::array<uint8_t, 8>{255, 0, 0, 0, 0, 0, 0, 255}));
}

TEST(KmerCounts, RefuseOtherBytes) {
  std::string updated;
  EXPECT_EQ(AddCounts("k", nullptr, "short", &updated).code(), Code::kCorruption);
}

}  // namespace
}  // namespace quire::assemble
