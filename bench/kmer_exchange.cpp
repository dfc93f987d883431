#include "kmer_exchange.h"

#include <utility>

namespace quire::bench {
namespace {

using assemble::Kmer;
using assemble::KmerInRead;
using assemble::MixKmer;

// Occurrences that a rank collects before it exchanges them, 8 bytes each.
constexpr size_t kRoundCount = 1 << 19;

// A k-mer and its neighbours in one word: 2k bits, then 3 bits for each side.
uint64_t Pack(const KmerInRead& found) {
  return static_cast<uint64_t>(found.kmer) << 6 | static_cast<uint64_t>(found.left) << 3 |
         found.right;
}

class Rounds {
 public:
  Rounds(MPI_Comm communicator, KmerTable* table) : communicator_(communicator), table_(table) {
    int size = 0;
    MPI_Comm_size(communicator, &size);
    outgoing_.resize(static_cast<size_t>(size));
    for (auto& words : outgoing_) words.reserve(kRoundCount / outgoing_.size() * 2);
  }

  void Add(const KmerInRead& found) {
    // The high half picks the rank, the low half the slot.
    const uint64_t mixed = MixKmer(found.kmer) >> 32;
    outgoing_[mixed * outgoing_.size() >> 32].push_back(Pack(found));
    ++collected_;
  }
  bool IsFull() const { return collected_ >= kRoundCount; }

  // Exchanges the collected occurrences; returns true if any rank still has more.
  bool Exchange(bool has_more) {
    const size_t size = outgoing_.size();
    std::vector<int> send_counts(size), send_places(size), receive_counts(size),
        receive_places(size);
    send_.clear();
    for (size_t rank = 0; rank < size; ++rank) {
      send_counts[rank] = static_cast<int>(outgoing_[rank].size());
      send_places[rank] = static_cast<int>(send_.size());
      send_.insert(send_.end(), outgoing_[rank].begin(), outgoing_[rank].end());
      outgoing_[rank].clear();
    }
    collected_ = 0;
    MPI_Alltoall(send_counts.data(), 1, MPI_INT, receive_counts.data(), 1, MPI_INT, communicator_);
    int total = 0;
    for (size_t rank = 0; rank < size; ++rank) {
      receive_places[rank] = total;
      total += receive_counts[rank];
    }
    receive_.resize(static_cast<size_t>(total));
    MPI_Alltoallv(send_.data(), send_counts.data(), send_places.data(), MPI_UINT64_T,
                  receive_.data(), receive_counts.data(), receive_places.data(), MPI_UINT64_T,
                  communicator_);
    for (const uint64_t word : receive_) {
      table_->Add(word >> 6, static_cast<uint8_t>(word >> 3 & 7), static_cast<uint8_t>(word & 7));
    }
    int more = has_more ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &more, 1, MPI_INT, MPI_MAX, communicator_);
    return more != 0;
  }

 private:
  MPI_Comm communicator_;
  KmerTable* table_;
  std::vector<std::vector<uint64_t>> outgoing_;
  std::vector<uint64_t> send_, receive_;
  size_t collected_ = 0;
};

}  // namespace

void KmerTable::Add(uint64_t kmer, uint8_t left, uint8_t right) {
  Slot& slot = Find(kmer);
  const bool is_new = slot.counts.count == 0;
  slot.kmer = kmer;
  slot.counts.Add(left, right);
  if (is_new && ++used_ * 3 > slots_.size() * 2) Grow();
}

KmerTable::Slot& KmerTable::Find(uint64_t kmer) {
  const size_t mask = slots_.size() - 1;
  size_t at = MixKmer(kmer) & mask;
  while (slots_[at].counts.count != 0 && slots_[at].kmer != kmer) at = (at + 1) & mask;
  return slots_[at];
}

void KmerTable::Grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.counts.count != 0) Find(slot.kmer) = slot;
  }
}

void CountByExchange(const std::vector<std::string>& reads, const assemble::KmerShape& shape,
                     MPI_Comm communicator, KmerTable* table) {
  Rounds rounds(communicator, table);
  for (const std::string& read : reads) {
    assemble::ForEachKmer(shape, read, [&](const KmerInRead& found) { rounds.Add(found); });
    if (rounds.IsFull()) rounds.Exchange(true);
  }
  while (rounds.Exchange(false)) continue;
}

}  // namespace quire::bench
