// Which ranks share a node, and from that the transport of this job.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "comm/core_set.h"
#include "comm/hybrid_transport.h"
#include "comm/mpi_link.h"
#include "comm/mpi_session.h"
#include "comm/mpi_transport.h"
#include "comm/shm_transport.h"
#include "io/machine.h"

namespace quire::comm {
namespace {

constexpr uint64_t kShmSpinNs = 30'000;
constexpr uint64_t kMpiSpinNs = 60'000;
constexpr size_t kNameBytesMax = 128;

// What each rank tells all others.
struct Card {
  uint64_t node_id;
  uint64_t process_start;
  uint64_t session;  // rank 0's counts
  int32_t process_id;
  int32_t kind;
  int32_t core_quota;
  int32_t window_frames;
  CoreSet cores;
};

struct RegionCard {
  uint64_t ring_bytes;
  char name[kNameBytesMax];
};

Card OwnCard(const MpiTransportOptions& options) {
  Card card{};
  const PeerProcess process = OwnProcess();
  card.node_id = io::NodeId();
  card.process_start = process.start;
  card.process_id = process.id;
  card.session = io::RandomU64();
  card.kind = static_cast<int32_t>(options.kind);
  card.core_quota = CoreQuota();
  card.window_frames = options.window_frames;
  card.cores = OwnCores();
  return card;
}

std::vector<int> RanksOnNode(const std::vector<Card>& cards, uint64_t node_id) {
  std::vector<int> ranks;
  for (size_t i = 0; i < cards.size(); ++i) {
    if (cards[i].node_id == node_id) ranks.push_back(static_cast<int>(i));
  }
  return ranks;
}

// Spinning pays where each rank has a core of its own; else it takes the core from the one that is
// waited for.
bool CoreForEach(const std::vector<Card>& cards, const std::vector<int>& ranks) {
  CoreSet cores;
  int quota = kCoresMax;
  for (int rank : ranks) {
    const Card& card = cards[static_cast<size_t>(rank)];
    cores |= card.cores;
    quota = std::min(quota, card.core_quota);
  }
  return std::min(static_cast<int>(cores.count()), quota) >= static_cast<int>(ranks.size());
}

Status CheckCards(const std::vector<Card>& cards) {
  for (size_t i = 1; i < cards.size(); ++i) {
    if (cards[i].kind == cards[0].kind && cards[i].window_frames == cards[0].window_frames) {
      continue;
    }
    return Status(Code::kInvalidArgument, "ranks 0 and " + std::to_string(i) +
                                              " were given different options of the transport");
  }
  if (cards[0].window_frames < 1) {
    return Status(Code::kInvalidArgument, "window_frames must be at least 1");
  }
  return Status();
}

// Collective: the region of this rank's node, made by the node's lowest rank; null on a rank that
// is alone on its node. An error on one rank is an error on all.
Result<std::unique_ptr<ShmRegion>> ShareRegion(MpiSession& session, const std::vector<int>& members,
                                               uint64_t ring_bytes_total_max, uint32_t number) {
  const int count = static_cast<int>(members.size());
  const bool creates = count > 1 && members[0] == session.rank();
  std::unique_ptr<ShmRegion> region;
  RegionCard mine{};
  Status status;
  if (creates) {
    auto created = ShmRegion::Create(count, ring_bytes_total_max, number);
    status = created.status();
    if (created.ok()) {
      region = std::move(*created);
      mine.ring_bytes = region->ring_bytes();
      std::strncpy(mine.name, region->name().c_str(), kNameBytesMax - 1);
    }
  }
  QUIRE_RETURN_IF_ERROR(session.Agree(status));
  QUIRE_ASSIGN_OR_RETURN(std::vector<RegionCard> cards, session.Gather(mine));
  if (count > 1 && !creates) {
    RegionCard& card = cards[static_cast<size_t>(members[0])];
    card.name[kNameBytesMax - 1] = '\0';
    auto opened = ShmRegion::Open(card.name, count, card.ring_bytes, number);
    status = opened.status();
    if (opened.ok()) region = std::move(*opened);
  }
  QUIRE_RETURN_IF_ERROR(session.Agree(status));
  if (creates) region->Unlink();
  return region;
}

}  // namespace

Result<std::unique_ptr<Transport>> NewMpiTransport(int fortran_communicator,
                                                   const MpiTransportOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<MpiSession> session,
                         MpiSession::Open(fortran_communicator, options.timeout_ms));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Card> cards, session->Gather(OwnCard(options)));
  QUIRE_RETURN_IF_ERROR(CheckCards(cards));
  if (session->size() == 1) return NewSelfTransport();

  const int rank = session->rank();
  const Card& own = cards[static_cast<size_t>(rank)];
  ShmPlace place{rank, session->size(), RanksOnNode(cards, own.node_id), 0};
  const bool spins = CoreForEach(cards, place.members);
  place.spin_ns = spins ? kShmSpinNs : 0;

  const auto number = static_cast<uint32_t>(cards[0].session);
  std::unique_ptr<Transport> shm;
  if (options.kind == TransportKind::kAuto) {
    QUIRE_ASSIGN_OR_RETURN(
        std::unique_ptr<ShmRegion> region,
        ShareRegion(*session, place.members, options.ring_bytes_total_max, number));
    if (region != nullptr) shm = NewShmTransport(std::move(region), place);
    // All on one node: no MPI call from here on, whatever the thread level.
    if (static_cast<int>(place.members.size()) == session->size()) return shm;
  }

  MpiLinkOptions link;
  link.window_frames = options.window_frames;
  link.number = number;
  link.spin_ns = spins ? kMpiSpinNs : 0;
  for (int neighbour : place.members) {
    const Card& card = cards[static_cast<size_t>(neighbour)];
    link.neighbours[neighbour] = {card.process_id, card.process_start};
  }
  auto mpi = std::make_unique<MpiLink>(std::move(session), link);
  if (shm == nullptr) return std::unique_ptr<Transport>(std::move(mpi));
  return NewHybridTransport(std::move(shm), std::move(mpi));
}

}  // namespace quire::comm
