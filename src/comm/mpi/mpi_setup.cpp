// Finds the ranks that share a node, and chooses the transport of this job accordingly.
#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "base/core/log_sink.h"
#include "base/core/out_of_memory.h"
#include "comm/mpi/hybrid_transport.h"
#include "comm/mpi/mpi_session.h"
#include "comm/mpi/mpi_transport.h"
#include "comm/mpi/transport_factory.h"
#include "comm/shm/shm_transport.h"
#include "comm/transport/core_set.h"
#include "io/files/machine.h"

namespace quire::comm {
namespace {

constexpr uint64_t kShmSpinNs = 30'000;
constexpr uint64_t kMpiSpinNs = 60'000;
constexpr size_t kNameBytesMax = 128;

// The data that each rank sends to all others.
struct Card {
  uint64_t node_id;
  uint64_t process_start;
  uint64_t session;  // rank 0's is used
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

Card OwnCard(const TransportOptions& options) {
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

// Returns whether each rank can have a core of its own. Only then is spinning useful; otherwise it
// takes the core from the awaited rank.
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

// Returns the session's number.
uint32_t NumberOf(const std::vector<Card>& cards) {
  return static_cast<uint32_t>(cards[0].session);
}

void LogWithoutRegion(const Status& why) {
  if (!base::LogEnabled()) return;
  base::Log(LogLevel::kWarning,
            "the ranks of this node share no memory, and use MPI instead: " + why.ToString());
}

// Creates the region, with its name in `card`; null, and no name, if the system refuses it.
std::unique_ptr<ShmRegion> CreateRegion(int count, uint64_t ring_bytes_total_max, uint32_t number,
                                        RegionCard* card) {
  auto created = ShmRegion::Create(count, ring_bytes_total_max, number);
  if (!created.ok()) {
    LogWithoutRegion(created.status());
    return nullptr;
  }
  card->ring_bytes = (*created)->ring_bytes();
  std::strncpy(card->name, (*created)->name().c_str(), kNameBytesMax - 1);
  return std::move(*created);
}

// Collective. Returns the region of this rank's node, which the node's lowest rank creates; null on
// a rank that is alone on its node, and on all ranks of a node if one of them cannot map it.
Result<std::unique_ptr<ShmRegion>> ShareRegion(MpiSession& session, const std::vector<int>& members,
                                               uint64_t ring_bytes_total_max, uint32_t number) {
  const int count = static_cast<int>(members.size());
  const bool creates = count > 1 && members[0] == session.rank();
  std::unique_ptr<ShmRegion> region;
  RegionCard mine{};
  if (creates) region = CreateRegion(count, ring_bytes_total_max, number, &mine);
  QUIRE_ASSIGN_OR_RETURN(std::vector<RegionCard> cards, session.Gather(mine));
  RegionCard& card = cards[static_cast<size_t>(members[0])];
  card.name[kNameBytesMax - 1] = '\0';
  if (!creates && card.name[0] != '\0') {
    auto opened = ShmRegion::Open(card.name, count, card.ring_bytes, number);
    if (opened.ok()) {
      region = std::move(*opened);
    } else {
      LogWithoutRegion(opened.status());
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<char> have,
                         session.Gather(static_cast<char>(region != nullptr)));
  if (creates && region != nullptr) region->Unlink();
  for (const int member : members) {
    if (have[static_cast<size_t>(member)] == 0) return std::unique_ptr<ShmRegion>();
  }
  return region;
}

MpiTransportOptions LinkOptions(const std::vector<Card>& cards, const std::vector<int>& neighbours,
                                bool spins) {
  MpiTransportOptions options;
  options.window_frames = cards[0].window_frames;
  options.number = NumberOf(cards);
  options.spin_ns = spins ? kMpiSpinNs : 0;
  for (int neighbour : neighbours) {
    const Card& card = cards[static_cast<size_t>(neighbour)];
    options.neighbours[neighbour] = {card.process_id, card.process_start};
  }
  return options;
}

// The objects that a rank makes by itself when it has the data of all ranks.
struct Made {
  std::unique_ptr<Transport> transport;
  MpiTransport* link = nullptr;  // within it, to be started; null: MPI is no longer needed
};

Made Make(const std::vector<Card>& cards, const ShmPlace& place, bool spins,
          std::unique_ptr<ShmRegion> region) {
  const bool shares = region != nullptr;
  std::unique_ptr<Transport> shm;
  if (shares) shm = NewShmTransport(std::move(region), place);
  // All ranks are on one node: no MPI call from here on, whatever the thread level.
  if (shares && static_cast<int>(place.members.size()) == place.size) return {std::move(shm)};
  auto mpi = std::make_unique<MpiTransport>(place.size, LinkOptions(cards, place.members, spins));
  MpiTransport* const link = mpi.get();
  if (!shares) return {std::move(mpi), link};
  return {NewHybridTransport(std::move(shm), std::move(mpi)), link};
}

Result<std::unique_ptr<Transport>> OpenOver(std::unique_ptr<MpiSession>& session,
                                            const TransportOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Card> cards, session->Gather(OwnCard(options)));
  QUIRE_RETURN_IF_ERROR(CheckCards(cards));
  if (session->size() == 1) return NewSelfTransport();

  const int rank = session->rank();
  const Card& own = cards[static_cast<size_t>(rank)];
  ShmPlace place{rank, session->size(), RanksOnNode(cards, own.node_id), 0};
  const bool spins = CoreForEach(cards, place.members);
  place.spin_ns = spins ? kShmSpinNs : 0;
  std::unique_ptr<ShmRegion> region;
  if (options.kind == TransportKind::kAuto) {
    QUIRE_ASSIGN_OR_RETURN(region, ShareRegion(*session, place.members,
                                               options.ring_bytes_total_max, NumberOf(cards)));
  }
  Made made;
  QUIRE_RETURN_IF_ERROR(session->Agree(base::OrOutOfMemory([&] {
    made = Make(cards, place, spins, std::move(region));
    return Status();
  })));
  if (made.link != nullptr) made.link->Start(std::move(session));
  return std::move(made.transport);
}

}  // namespace

Result<std::unique_ptr<Transport>> NewTransport(int fortran_communicator,
                                                const TransportOptions& options) {
  return base::OrOutOfMemory([&]() -> Result<std::unique_ptr<Transport>> {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<MpiSession> session,
                           MpiSession::Open(fortran_communicator, options.timeout_ms));
    try {
      return OpenOver(session, options);
    } catch (const std::bad_alloc&) {
      session->Leak();  // other ranks may be in a step that this one will not take
      throw;
    }
  });
}

}  // namespace quire::comm
